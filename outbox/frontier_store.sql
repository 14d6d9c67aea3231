-- Stores how far each shard is settled, as the place to resume from. A stale owner stores nothing.
-- $1 shards, $2 claim_ids, $3 claim_versions, $4 snapshots, $5 positions, $6 anchor. No rows. Index: outbox_shard_pkey.
update {{schema}}.outbox_shard s
   set frontier_snapshot = u.snapshot::pg_snapshot, frontier_position = u.position
  from unnest($1::smallint[], $2::text[]::uuid[], $3::bigint[], $4::text[], $5::bigint[]) u(shard, claim_id, claim_version, snapshot, position)
 where s.shard = u.shard and s.claim_id = u.claim_id and s.claim_version = u.claim_version and {{schema}}.anchor() = $6::text
