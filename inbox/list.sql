-- Lists dead letters, the longest dead first, without their bodies.
-- $1 consumer, $2 topic, $3 event_id, $4 error class ('' matches all); $5 updated_at, $6 consumer, $7 event_id of the last row
-- of the page before; $8 most rows. Index: inbox_dead_idx.
select consumer, event_id, state, topic, kafka_partition, kafka_offset, record_time, record_key,
       coalesce(octet_length(payload), 0)::bigint, attempts, deaths, replays, due_at,
       error_class, first_error, last_error, created_at, updated_at
  from {{schema}}.inbox
 where state = 'dead'
   and ($1::text = '' or consumer = $1) and ($2::text = '' or topic = $2)
   and ($3::text = '' or event_id = $3) and ($4::text = '' or error_class = $4)
   and updated_at >= $5::timestamptz
   and (updated_at, consumer, event_id) > ($5::timestamptz, $6::text, $7::text)
 order by updated_at, consumer, event_id
 limit $8::integer
