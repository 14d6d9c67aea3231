-- Takes a relay out of the register, and with it those that have been dead for a day.
-- $1 relay_id. No rows. Index: outbox_relay_pkey.
delete from {{schema}}.outbox_relay
 where relay_id = $1::text::uuid or lease_until < {{schema}}.clock() - interval '1 day'
