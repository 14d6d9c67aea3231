-- Claims shards nobody holds a live lease on. FOR UPDATE makes a takeover wait out, or skip, a settling write of the owner
-- it replaces; the new claim_version makes every later one of those write nothing. The stored frontier counts only in the
-- cluster it was stored in: a restored dump starts over and skips what has a receipt.
-- A row is locked in its newest version. That must be the one that was seen to be free: another relay may have claimed it in
-- the meantime, and its lease is not looked at again.
-- $1 relay_id, $2 claim_id (made by the claimer beforehand, so that a lost answer can be resolved), $3 at most so many,
-- $4 relay ids seen to be dead though their lease lies in the future, $5 anchor.
-- Rows: shard, claim_version, frontier snapshot, frontier position, whether it was taken over, takeovers without progress,
-- suspect (0 = none) and how often. Index: outbox_shard_pkey.
with seen as materialized (
  select c.shard, c.claim_version, c.relay_id is not null as taken_over
    from {{schema}}.outbox_shard c
    left join {{schema}}.outbox_relay r on r.relay_id = c.relay_id
   where r.relay_id is null or r.lease_until <= {{schema}}.clock() or r.relay_id = any($4::text[]::uuid[])
)
update {{schema}}.outbox_shard s
   set relay_id = $1::text::uuid,
       claim_id = $2::text::uuid,
       claim_version = s.claim_version + 1,
       frontier_snapshot = case when free.same_cluster then s.frontier_snapshot else '1:1:' end,
       frontier_position = case when free.same_cluster then s.frontier_position else 0 end,
       takeovers = s.takeovers + free.taken_over::int,
       anchor = $5::text
  from (select c.shard, seen.taken_over, split_part(c.anchor, '/', 1) = split_part($5::text, '/', 1) as same_cluster
          from {{schema}}.outbox_shard c
          join seen on seen.shard = c.shard and seen.claim_version = c.claim_version
         where exists (select from {{schema}}.outbox_relay me where me.relay_id = $1::text::uuid and me.lease_until > {{schema}}.clock())
           and {{schema}}.anchor() = $5::text
         order by c.shard
         limit $3::int
           for update of c skip locked) free
 where s.shard = free.shard
returning s.shard, s.claim_version, s.frontier_snapshot::text, s.frontier_position, free.taken_over,
          s.takeovers, coalesce(s.suspect, 0), s.suspect_tries
