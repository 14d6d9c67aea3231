-- What the outbox has under event_ids that a file brings again.
-- $1 event_ids. Rows: event_id, topic, payload. Index: outbox_pkey.
select event_id, topic, payload from {{schema}}.outbox where event_id = any($1::text[])
