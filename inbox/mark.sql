-- Takes an event that was delivered: inserts its row, first of all in the transaction that handles it. The time limits of the
-- transaction come in the same round trip, before the insert waits for anybody.
-- $1, $2: idle-in-transaction and lock limits as text with unit. $3 consumer, $4 event_id, $5 attempts, $6 topic, $7 partition,
-- $8 offset, $9 record time, $10 SHA-256 of the payload. Rows affected: 1, or 0 if the event has a row already.
-- Index: inbox_pkey.
with limits as materialized (
  select set_config('idle_in_transaction_session_timeout', $1::text, true), set_config('lock_timeout', $2::text, true)
)
insert into {{schema}}.inbox
       (consumer, event_id, state, attempts, topic, kafka_partition, kafka_offset, record_time, payload_hash)
select $3::text, $4::text, 'done', $5::integer, $6::text, $7::integer, $8::bigint, $9::timestamptz, $10::bytea
  from limits
    on conflict do nothing
