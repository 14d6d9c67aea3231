-- Reads what body an event had that is there already.
-- $1 consumer, $2 event_id. Rows: at most 1. Index: inbox_pkey.
select payload_hash
  from {{schema}}.inbox
 where consumer = $1::text and event_id = $2::text
