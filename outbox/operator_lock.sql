-- Locks parked events until the end of the transaction, in the order in which every operation locks them.
-- $1 event_ids. Rows: ignored. Index: outbox_parked_event_id_key.
select from {{schema}}.outbox_parked where event_id = any($1::text[]) order by entry for update
