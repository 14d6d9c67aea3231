-- Reads all of one event of one consumer, in any state.
-- $1 consumer, $2 event_id. Rows: at most 1. Index: inbox_pkey.
select consumer, event_id, state, topic, kafka_partition, kafka_offset, record_time, record_key,
       coalesce(octet_length(payload), 0)::bigint, attempts, deaths, replays, due_at,
       error_class, first_error, last_error, created_at, updated_at,
       payload, headers is not null and payload is null, headers, stack
  from {{schema}}.inbox
 where consumer = $1::text and event_id = $2::text
