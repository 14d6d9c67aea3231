-- Enters a relay into the register under a lease and says under which anchor.
-- $1 relay_id uuid, $2 name text, $3 lease in milliseconds. One row: anchor. Index: outbox_relay_pkey.
insert into {{schema}}.outbox_relay (relay_id, name, lease_ms, lease_until)
values ($1::text::uuid, $2::text, $3::bigint, {{schema}}.clock() + $3::bigint * interval '1 millisecond')
returning {{schema}}.anchor()
