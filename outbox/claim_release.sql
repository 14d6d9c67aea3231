-- Gives shards back, with the frontier up to which everything in them is settled.
-- $1 to $7 as of frontier_store.sql. No rows. Index: outbox_shard_pkey.
update {{schema}}.outbox_shard s
   set relay_id = null, claim_id = null, frontier_snapshot = u.snapshot::pg_snapshot, frontier_position = u.position,
       takeovers = case when u.well then 0 else s.takeovers end, suspect = case when u.well then null else s.suspect end,
       suspect_tries = case when u.well then 0 else s.suspect_tries end
  from unnest($1::smallint[], $2::text[]::uuid[], $3::bigint[], $4::text[], $5::bigint[], $7::boolean[]) u(shard, claim_id, claim_version, snapshot, position, well)
 where s.shard = u.shard and s.claim_id = u.claim_id and s.claim_version = u.claim_version and {{schema}}.anchor() = $6::text
