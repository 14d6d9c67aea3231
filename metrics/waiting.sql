-- How much is waiting and for how long, for metrics. Looks only above what each shard's owner, or the held topic in it, has
-- stored as settled, so the few events that committed late, below that, are left out, and so are parked events. Reads the next
-- 10,000 events of each shard and of each held topic at most, and counts among 100,000 in all, so that neither a large backlog
-- nor one event that is stuck makes looking expensive. Receipts and parked events are asked for one by one: as "not exists"
-- they might all be read instead.
-- Rows: one, (count, age of the oldest in seconds or 0).
-- Indexes: outbox_shard_position_key, outbox_receipt_pkey, outbox_parked_pkey.
with start as materialized (
  select shard, null as topic, frontier_position as after, 9223372036854775807 as upto from {{schema}}.outbox_shard
   union all
  select l.shard, l.topic, l.frontier_position, s.frontier_position
    from {{schema}}.outbox_lane l
    join {{schema}}.outbox_shard s on s.shard = l.shard
)
select (select count(*)
          from (select next.shard, next.position
                  from start
                 cross join lateral (
                       select o.shard, o.position, o.topic from {{schema}}.outbox o
                        where o.shard = start.shard and o.position > start.after and o.position <= start.upto
                        order by o.position limit 10000) next
                 where start.topic is null or next.topic = start.topic
                 limit 100000) n
         where (select true from {{schema}}.outbox_receipt r where r.shard = n.shard and r.position = n.position) is null
           and (select true from {{schema}}.outbox_parked p where p.shard = n.shard and p.position = n.position) is null),
       (select coalesce(extract(epoch from {{schema}}.clock() - min(first.created_at)), 0)::float8
          from start
         cross join lateral (
               select n.created_at
                 from (select o.shard, o.position, o.topic, o.created_at from {{schema}}.outbox o
                        where o.shard = start.shard and o.position > start.after and o.position <= start.upto
                        order by o.position limit 10000) n
                where (start.topic is null or n.topic = start.topic)
                  and (select true from {{schema}}.outbox_receipt r where r.shard = n.shard and r.position = n.position) is null
                  and (select true from {{schema}}.outbox_parked p where p.shard = n.shard and p.position = n.position) is null
                order by n.position limit 1) first)
