-- Renews a relay's lease while it still holds, and reports the register: who is there, how many shards are free, and which
-- shards are this relay's own according to the database. A lease that ran out is never renewed: its owner may have been
-- replaced already.
-- $1 relay_id, $2 lease in milliseconds, $3 anchor, $4 relay ids seen to be dead though their lease lies in the future.
-- One row: renewed (bool), free shards, all shards, relays as JSON, own shards as JSON, the time in microseconds since 1970. At most a few hundred tiny rows are read.
with renewed as (
  update {{schema}}.outbox_relay
     set lease_until = {{schema}}.clock() + $2::bigint * interval '1 millisecond'
   where relay_id = $1::text::uuid and lease_until > {{schema}}.clock() and {{schema}}.anchor() = $3::text
  returning true
), relay as (
  select relay_id, lease_until,
         lease_until > {{schema}}.clock() and relay_id <> all($4::text[]::uuid[]) as live,
         lease_until > {{schema}}.clock() + lease_ms * interval '1 millisecond' as ahead, lease_ms
    from {{schema}}.outbox_relay
)
select exists (select from renewed),
       (select count(*) from {{schema}}.outbox_shard s left join relay r using (relay_id) where r.live is not true),
       (select count(*) from {{schema}}.outbox_shard),
       (select coalesce(json_agg(json_build_object('id', relay_id, 'live', live, 'ahead', ahead, 'lease_ms', lease_ms,
               'until', extract(epoch from lease_until)::text) order by relay_id), '[]') from relay),
       (select coalesce(json_agg(json_build_object('shard', shard, 'claim_id', claim_id, 'claim_version', claim_version)), '[]')
          from {{schema}}.outbox_shard where relay_id = $1::text::uuid),
       (extract(epoch from {{schema}}.clock()) * 1000000)::bigint
