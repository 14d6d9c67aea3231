-- Writes held topics' lanes under the owner's tokens.
-- $1 shards, $2 claim_ids, $3 claim_versions: the tokens, one a lane; $4 anchor; $5 topics, $6 frontier snapshots, $7 frontier
-- positions, $8 whether they are held, $9 reasons, $10 error texts, $11 failures.
-- Rows: the shards this owner still holds. Indexes: outbox_shard_pkey, outbox_lane_pkey.
with mine as materialized (
  select s.shard
    from {{schema}}.outbox_shard s
   where exists (select from unnest($1::smallint[], $2::text[]::uuid[], $3::bigint[]) t(shard, claim_id, claim_version)
                  where s.shard = t.shard and s.claim_id = t.claim_id and s.claim_version = t.claim_version)
     and {{schema}}.anchor() = $4::text
   order by s.shard
     for key share of s
), saved as (
  insert into {{schema}}.outbox_lane as l (shard, topic, frontier_snapshot, frontier_position, held, reason, last_error, failures)
  select mine.shard, u.topic, u.snapshot::pg_snapshot, u.position, u.held, u.reason, u.error, u.failures
    from unnest($1::smallint[], $5::text[], $6::text[], $7::bigint[], $8::boolean[], $9::text[], $10::text[], $11::int[])
         u(shard, topic, snapshot, position, held, reason, error, failures)
    join mine using (shard)
  on conflict (shard, topic) do update
     set frontier_snapshot = excluded.frontier_snapshot, frontier_position = excluded.frontier_position, held = excluded.held,
         reason = case when excluded.held then excluded.reason else l.reason end, last_error = excluded.last_error, failures = excluded.failures,
         since = case when l.held = excluded.held then l.since else {{schema}}.clock() end
)
select shard from mine
