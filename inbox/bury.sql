-- Keeps an event its consumer gave up, first of all in the transaction that ends the delivery.
-- $1, $2: idle-in-transaction and lock limits as text with unit. $3 consumer, $4 event_id, $5 attempts, $6 error class, $7 first
-- error, $8 last error, $9 stack, $10 topic, $11 partition, $12 offset, $13 record time, $14 SHA-256 of the payload, $15 record
-- key, $16 payload, $17 headers. Rows: the number of deaths, or none if the event has a row already. Index: inbox_pkey.
with limits as materialized (
  select set_config('idle_in_transaction_session_timeout', $1::text, true), set_config('lock_timeout', $2::text, true)
)
insert into {{schema}}.inbox
       (consumer, event_id, state, attempts, deaths, error_class, first_error, last_error, stack,
        topic, kafka_partition, kafka_offset, record_time, payload_hash, record_key, payload, headers)
select $3::text, $4::text, 'dead', $5::integer, 1, $6::text, $7::text, $8::text, nullif($9::text, ''),
       $10::text, $11::integer, $12::bigint, $13::timestamptz, $14::bytea, $15::bytea, $16::bytea, $17::jsonb
  from limits
    on conflict do nothing
returning deaths
