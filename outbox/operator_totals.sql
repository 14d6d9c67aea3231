-- How many events are in each state, exactly, and for how long the oldest has been. Waiting events are looked for where they
-- can be: beyond the frontier of their shard, or of their topic where that has one, and among those that committed after the
-- frontier had passed them. Receipts and parked events are asked for one by one: as "not exists" they might all be read.
-- No parameters. Rows: state, events, milliseconds or null. Indexes: outbox_shard_position_key, outbox_xid_position_idx,
-- outbox_receipt_pkey, outbox_parked_pkey. Receipts and parked events are counted.
with shard as materialized (
  select s.shard, s.frontier_snapshot, s.frontier_position, coalesce(l.lease_until > {{schema}}.clock(), false) as live
    from {{schema}}.outbox_shard s
    left join {{schema}}.outbox_relay l on l.relay_id = s.relay_id
), lane as materialized (
  select shard, topic, frontier_snapshot, frontier_position, held from {{schema}}.outbox_lane
), late as materialized (
  -- Bounds at both ends have the planner expect few, whatever its statistics.
  select pg_snapshot_xmin(f.frontier_snapshot) as first, pg_snapshot_xmax(pg_current_snapshot()) as last
    from (select frontier_snapshot from shard where frontier_position > 0
           union all
          select frontier_snapshot from lane where frontier_position > 0) f
   order by 1 limit 1
), candidate as (
  select o.*
    from shard s
   cross join lateral (
         select o.shard, o.position, o.topic, o.created_at from {{schema}}.outbox o
          where o.shard = s.shard and o.position > s.frontier_position offset 0) o
   union all
  select o.*
    from lane
    join shard s on s.shard = lane.shard
   cross join lateral (
         select o.shard, o.position, o.topic, o.created_at from {{schema}}.outbox o
          where o.shard = lane.shard and o.topic = lane.topic
            and o.position > lane.frontier_position and o.position <= s.frontier_position offset 0) o
   union all
  select o.shard, o.position, o.topic, o.created_at
    from late
   cross join lateral (
         select o.shard, o.position, o.topic, o.created_at, o.xid from {{schema}}.outbox o
          where o.xid >= late.first and o.xid <= late.last and o.position <= (select max(frontier_position) from shard) offset 0) o
    join shard s on s.shard = o.shard
    left join lane on lane.shard = o.shard and lane.topic = o.topic
   where o.position <= least(lane.frontier_position, s.frontier_position)
     and not pg_visible_in_snapshot(o.xid, coalesce(lane.frontier_snapshot, s.frontier_snapshot))
), waiting as (
  select case when s.live and lane.held is not true then 'claimed' else 'pending' end as state, c.created_at
    from candidate c
    join shard s on s.shard = c.shard
    left join lane on lane.shard = c.shard and lane.topic = c.topic
   where (select true from {{schema}}.outbox_receipt r where r.shard = c.shard and r.position = c.position) is null
     and (select true from {{schema}}.outbox_parked p where p.shard = c.shard and p.position = c.position) is null
)
select state, count(*), (extract(epoch from {{schema}}.clock() - min(created_at)) * 1000)::bigint from waiting group by state
 union all
select state, count(*), (extract(epoch from {{schema}}.clock() - min(created_at)) * 1000)::bigint from {{schema}}.outbox_parked group by state
 union all
select 'sent', count(*), null from {{schema}}.outbox_receipt
