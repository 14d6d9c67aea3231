-- Events below the frontier that the stored snapshot claims to have seen and that are neither sent nor parked, among the highest
-- 1000 positions of each shard below its frontier. There should be none. Topics with a frontier of their own are left out.
-- No parameters. One row: events. Indexes: outbox_shard_position_key, outbox_receipt_pkey, outbox_parked_pkey.
select count(*)
  from {{schema}}.outbox_shard s
 cross join lateral (
       select o.shard, o.position, o.topic, o.xid from {{schema}}.outbox o
        where o.shard = s.shard and o.position <= s.frontier_position
        order by o.position desc limit 1000) o
 where pg_visible_in_snapshot(o.xid, s.frontier_snapshot)
   and (select true from {{schema}}.outbox_receipt r where r.shard = o.shard and r.position = o.position) is null
   and (select true from {{schema}}.outbox_parked p where p.shard = o.shard and p.position = o.position) is null
   and (select true from {{schema}}.outbox_lane l where l.shard = o.shard and l.topic = o.topic) is null
