-- Reads what no earlier read has handed out, for all shards of a relay at once, without waiting for any transaction.
-- A frontier (S, P) of a shard says: every event visible in snapshot S at a position up to P has been handed out. Under a
-- new snapshot T this returns the late ones (position <= P, not visible in S) and the new ones (position > P).
--
-- A lane of a shard is all its topics but those excluded, or one topic only. Of each lane
-- $1 shard smallint[], $2 position P, $3 group: an index, from 1, into $4 snapshots S text[] (lanes claimed together share
-- one), $5 rows of new events wanted (0 = none), $6 the position up to which new events are looked at, settled and parked ones
-- left out, or -1 = to the end and all of them, $10 the only topic or '', $11 the topics excluded, with commas between.
-- $12 the highest P of each group. $7 bytes at most, $8 late rows at most, $9 rows at most of each transaction, or range of transactions, late events are
-- looked for in.
-- Rows: in the first as JSON snapshot T, anchor, control version, the highest position there is in each lane's shard up to $6
-- (null without exclusions) and the number of late rows; then as a record the number of the event's lane, whether it is new, whether
-- the limit of bytes is reached, the milliseconds until it is due or null, and the event, in any order, or null when there is none.
-- The limits may cut late events: then none of the new ones may be used, and the late ones are read by read_late.sql. Where $9
-- cut, the late ones found are not the first by position: none is returned, and the number of late rows is $8.
-- Indexes: outbox_xid_position_idx for the late, outbox_shard_position_key for the new, outbox_receipt_pkey.
--
-- Lateral joins with a limit, bounds instead of equality on xid, and a receipt looked up by a scalar subquery keep the planner
-- from reading a whole table, whatever its statistics: after a bulk import every row has the same xid. So does asking for the topic
-- in a case: it hides how few rows the planner would think are left. The xid of a late event, known already, makes either index do.
with t as materialized (
  select pg_current_snapshot() as now, {{schema}}.anchor() as anchor
), f as materialized (
  select u.shard, u.position, u.g, u.wanted, u.upto >= 0 as skip, case when u.upto < 0 then 9223372036854775807 else u.upto end as upto,
         nullif(u.topic, '') as topic, string_to_array(u.excluded, ',') as excluded, u.n::int as lane
    from unnest($1::smallint[], $2::bigint[], $3::int[], $5::int[], $6::bigint[], $10::text[], $11::text[]) with ordinality
         u(shard, position, g, wanted, upto, topic, excluded, n)
), range as materialized (
  -- The transactions that may have become visible: those younger than S, and those S lists as running, once they have ended.
  select s.g, s.position, x.first, x.last, row_number() over () as n
    from t, (select n as g, position, snapshot::pg_snapshot from unnest($4::text[], $12::bigint[]) with ordinality s(snapshot, position, n) where position > 0) s
   cross join lateral (
         select pg_snapshot_xmax(s.snapshot) as first, pg_snapshot_xmax(t.now) as last
         union all
         select xip, xip from pg_snapshot_xip(s.snapshot) xip where pg_visible_in_snapshot(xip, t.now)) x
), committed as materialized (
  -- Once a group, by transaction id: a probe that finds nothing as a rule.
  select range.n, range.g, o.*
    from range
   cross join lateral (
         select o.shard, o.position, o.xid, o.topic from {{schema}}.outbox o
          where o.xid >= range.first and o.xid <= range.last and o.position <= range.position
          order by o.xid, o.position
          limit $9::int) o
), late_key as materialized (
  select c.shard, c.position, c.xid, c.lane
    from (select c.shard, c.position, c.xid, f.lane
            from t, committed c
            join f on f.g = c.g and f.shard = c.shard and c.position <= f.position
             and case when f.topic is null then c.topic <> all(f.excluded) else c.topic = f.topic end
           where pg_visible_in_snapshot(c.xid, t.now)
          offset 0) c
   where (select r.position from {{schema}}.outbox_receipt r where r.shard = c.shard and r.position = c.position) is null
     and (select p.position from {{schema}}.outbox_parked p where p.shard = c.shard and p.position = c.position) is null
     and not exists (select from committed group by n having count(*) >= $9::int)
   order by c.position
   limit $8::int
), late as (
  select l.lane, o.*
    from late_key l
   cross join lateral (select o.* from {{schema}}.outbox o where o.shard = l.shard and o.position = l.position and o.xid = l.xid offset 0) o
), fresh as (
  select f.lane, n.*
    from f
   cross join lateral (
         select o.* from {{schema}}.outbox o
          where o.shard = f.shard and o.position > f.position and o.position <= f.upto
            and case when f.topic is null then o.topic <> all(f.excluded) else o.topic = f.topic end
            and (not f.skip
                 or (select r.position from {{schema}}.outbox_receipt r where r.shard = o.shard and r.position = o.position) is null
                    and (select p.position from {{schema}}.outbox_parked p where p.shard = o.shard and p.position = o.position) is null)
          order by o.position
          limit f.wanted) n
   where f.wanted > 0
), sized as (
  -- Payloads that are stored out of line are not fetched to be measured.
  select q.*, sum(size) over (order by fresh, position rows unbounded preceding) as through
    from (select false as fresh, lane, shard, position, event_id, topic, kind, aggregate_type, aggregate_id, aggregate_version,
                 event_type, event_version, tenant, partition_key, payload, metadata, deliver_at, created_at,
                 200 + coalesce(octet_length(payload), 0) + pg_column_size(metadata) as size from late
           union all
          select true, lane, shard, position, event_id, topic, kind, aggregate_type, aggregate_id, aggregate_version,
                 event_type, event_version, tenant, partition_key, payload, metadata, deliver_at, created_at,
                 200 + coalesce(octet_length(payload), 0) + pg_column_size(metadata) from fresh) q
)
-- What is the same for all is in the first row only.
select case when first is not false then json_build_object(
         'snapshot', t.now::text, 'anchor', t.anchor, 'version', (select version from {{schema}}.outbox_control),
         'highest', (select json_agg((select coalesce(max(o.position), 0) from {{schema}}.outbox o where o.shard = f.shard and o.position <= f.upto) order by lane)
                       from f where exists (select from f where excluded <> '{}')),
         'late', case when exists (select from committed group by n having count(*) >= $9::int) then $8::int else (select count(*) from late_key) end)::text end,
       record
  from t
  left join (
    select record_send(row(lane, fresh, through >= $7::bigint,
                           case when deliver_at > {{schema}}.clock() then ceil(extract(epoch from deliver_at - {{schema}}.clock()) * 1000)::bigint end,
                           {{event}})) as record, through = size as first
      from sized where through - size < $7::bigint) p on true
