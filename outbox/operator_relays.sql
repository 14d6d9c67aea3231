-- The relays in the register, the living first. No parameters.
-- Rows: relay_id, name, milliseconds its lease still has, whether that is any, shards it owns, when it started.
select r.relay_id, r.name, (extract(epoch from r.lease_until - {{schema}}.clock()) * 1000)::bigint,
       r.lease_until > {{schema}}.clock() as live, (select count(*) from {{schema}}.outbox_shard s where s.relay_id = r.relay_id), r.started_at
  from {{schema}}.outbox_relay r
 order by live desc, r.name, r.started_at, r.relay_id
