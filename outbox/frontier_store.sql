-- Stores how far each shard is settled, as the place to resume from, and that its owner gets on. A stale owner stores nothing.
-- $1 shards, $2 claim_ids, $3 claim_versions, $4 snapshots, $5 positions, $6 anchor, $7 whether takeovers are forgotten. No rows.
-- Index: outbox_shard_pkey.
update {{schema}}.outbox_shard s
   set frontier_snapshot = u.snapshot::pg_snapshot, frontier_position = u.position,
       takeovers = case when u.well then 0 else s.takeovers end, suspect = case when u.well then null else s.suspect end,
       suspect_tries = case when u.well then 0 else s.suspect_tries end
  from unnest($1::smallint[], $2::text[]::uuid[], $3::bigint[], $4::text[], $5::bigint[], $7::boolean[]) u(shard, claim_id, claim_version, snapshot, position, well)
 where s.shard = u.shard and s.claim_id = u.claim_id and s.claim_version = u.claim_version and {{schema}}.anchor() = $6::text
