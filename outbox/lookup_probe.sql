-- Tries to take the place of an event. $1 event_id. Waits for a transaction that has written the event and not ended yet;
-- then 0 rows = that transaction committed, 1 row = nobody has written the event. Always rolled back. Index: outbox_pkey.
insert into {{schema}}.outbox (event_id, topic)
values ($1, 'lookup')
    on conflict (event_id) do nothing
