-- Reads events with what became of them, apart from parking.
-- $1 event_ids, $2 whether the payloads, too. Rows: the columns; bytes of the payload, null = a tombstone; the receipt, nulls =
-- not sent; whether a live relay owns the shard; why the topic is held there, '' = it is not.
-- Indexes: outbox_pkey, outbox_receipt_pkey.
select o.event_id, o.shard, o.position, o.topic, o.kind, coalesce(o.aggregate_type, ''), coalesce(o.aggregate_id, ''),
       coalesce(o.aggregate_version, 0), o.event_type, o.event_version, coalesce(o.tenant, ''), o.partition_key,
       nullif(o.metadata, '{}')::text, octet_length(o.payload), case when $2::bool then o.payload end, o.deliver_at, o.created_at,
       r.sent_at, r.topic, r.kafka_partition, r.kafka_offset, r.attempts, r.claim_version,
       coalesce(l.lease_until > {{schema}}.clock(), false),
       coalesce((select h.reason from {{schema}}.outbox_lane h where h.shard = o.shard and h.topic = o.topic and h.held), '')
  from {{schema}}.outbox o
  left join {{schema}}.outbox_receipt r on r.shard = o.shard and r.position = o.position
  left join {{schema}}.outbox_shard s on s.shard = o.shard
  left join {{schema}}.outbox_relay l on l.relay_id = s.relay_id
 where o.event_id = any($1::text[])
