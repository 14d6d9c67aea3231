-- Reads what no earlier read has handed out, for all shards of a relay at once, without waiting for any transaction.
-- A frontier (S, P) of a shard says: every event visible in snapshot S at a position up to P has been handed out. Under a
-- new snapshot T this returns the late ones (position <= P, not visible in S) and the new ones (position > P).
--
-- $1 shards smallint[], $2 their positions P, $3 their groups: indexes, from 1, into $4 snapshots S text[] (shards claimed
-- together share one), $5 rows of new events wanted of each shard (0 = none), $6 while resuming after a claim: the position
-- up to which receipted events are to be skipped in this read, else 0, $7 bytes at most, $8 late rows at most,
-- $9 and $10 while late events are drained in pages: the last position handed out, and the snapshot T under which draining
-- began, else 0 and null.
-- Rows: snapshot T, anchor, number of late rows, then number of rows before the byte limit and one event, in position order,
-- or nulls when there is none.
-- The two limits on late rows and bytes may cut late events: then none of the new ones may be used.
-- Indexes: outbox_xid_position_idx for the late, outbox_shard_position_key for the new, outbox_receipt_pkey.
with t as materialized (
  select pg_current_snapshot() as now
), f as materialized (
  select u.*, case when resume = 0 then 9223372036854775807 else resume end as upto
    from unnest($1::smallint[], $2::bigint[], $3::int[], $5::int[], $6::bigint[]) u(shard, position, g, wanted, resume)
), committed as materialized (
  -- Once a group, by transaction id: a probe that finds nothing as a rule.
  select g.g, o.*
    from unnest($4::text[]) with ordinality as g(snapshot, g)
   cross join lateral (
         select o.* from {{schema}}.outbox o, t
          where o.xid >= pg_snapshot_xmax(g.snapshot::pg_snapshot) and o.xid < pg_snapshot_xmax(t.now)
         union all
         select o.* from pg_snapshot_xip(g.snapshot::pg_snapshot) x(xid) join {{schema}}.outbox o on o.xid = x.xid) o
   where o.position + 0 > $9::bigint and o.position + 0 <= (select max(position) from f)
     and pg_visible_in_snapshot(o.xid, coalesce($10::text::pg_snapshot, (select now from t)))
), late as materialized (
  select o.*
    from committed o
    join f on f.g = o.g and f.shard = o.shard and o.position <= f.position
   where not exists (select from {{schema}}.outbox_receipt r where r.shard = o.shard and r.position = o.position)
   order by o.position
   limit $8::int
), fresh as (
  select n.*
    from f
   cross join lateral (
         select o.* from {{schema}}.outbox o
          where o.shard = f.shard and o.position > f.position and o.position <= f.upto
            and (f.resume = 0
                 or not exists (select from {{schema}}.outbox_receipt r where r.shard = o.shard and r.position = o.position))
          order by o.position
          limit f.wanted) n
   where f.wanted > 0
), sized as (
  -- Payloads that are stored out of line are not fetched to be measured.
  select q.*, sum(200 + coalesce(octet_length(payload), 0) + pg_column_size(metadata)) over (order by fresh, position rows between unbounded preceding and 1 preceding) as before,
         count(*) over () as total
    from (select false as fresh, shard, position, event_id, topic, kind, aggregate_type, aggregate_id, aggregate_version,
                 event_type, event_version, tenant, partition_key, payload, metadata, created_at from late
           union all
          select true, shard, position, event_id, topic, kind, aggregate_type, aggregate_id, aggregate_version,
                 event_type, event_version, tenant, partition_key, payload, metadata, created_at from fresh) q
)
select t.now::text, {{schema}}.anchor(), (select count(*) from late), p.*
  from t left join (
    select total, fresh, shard, position, event_id, topic, kind, aggregate_type, aggregate_id, aggregate_version,
           event_type, event_version, tenant, partition_key, payload, nullif(metadata, '{}') as metadata, created_at
      from sized where before is null or before < $7::bigint) p on true
 order by p.position
