-- Reads parked events that are due, the longest due first. Nothing is taken: that is for the transaction of the effect.
-- $1 consumer, $2 topic, $3 most rows, $4 most bytes of payload, which only the first row may exceed, $5 event_ids to leave out.
-- Index: inbox_due_idx.
select event_id, kafka_partition, kafka_offset, record_time, record_key, record_key is null, payload, payload is null, headers
  from (select *, sum(coalesce(octet_length(payload), 0)) over (order by due_at, event_id) as bytes,
               row_number() over (order by due_at, event_id) as n
          from (select event_id, due_at, kafka_partition, kafka_offset, record_time, record_key, payload, headers
                  from {{schema}}.inbox
                 where consumer = $1::text and topic = $2::text and state = 'parked' and due_at <= {{schema}}.clock()
                   and event_id <> all ($5::text[])
                 order by due_at, event_id
                 limit $3::integer) due) counted
 where bytes <= $4::bigint or n = 1
 order by n
