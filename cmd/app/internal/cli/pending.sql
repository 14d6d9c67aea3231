-- How much is waiting and for how long, for metrics. Looks only above what each shard's owner has stored as settled, so
-- the few events that committed late, below that, are left out. Reads the next 10,000 events of each shard at most, and
-- counts among 100,000 in all, so that neither a large backlog nor one event that is stuck makes looking expensive. The
-- receipts are asked for one by one: as "not exists" they might all be read instead.
-- Rows: one, (count, age of the oldest in seconds or 0). Indexes: outbox_shard_position_key, outbox_receipt_pkey.
select (select count(*)
          from (select next.shard, next.position
                  from {{schema}}.outbox_shard s
                 cross join lateral (
                       select o.shard, o.position from {{schema}}.outbox o
                        where o.shard = s.shard and o.position > s.frontier_position
                        order by o.position limit 10000) next
                 limit 100000) n
         where (select true from {{schema}}.outbox_receipt r where r.shard = n.shard and r.position = n.position) is null),
       (select coalesce(extract(epoch from {{schema}}.clock() - min(first.created_at)), 0)::float8
          from {{schema}}.outbox_shard s
         cross join lateral (
               select n.created_at
                 from (select o.position, o.created_at from {{schema}}.outbox o
                        where o.shard = s.shard and o.position > s.frontier_position
                        order by o.position limit 10000) n
                where (select true from {{schema}}.outbox_receipt r where r.shard = s.shard and r.position = n.position) is null
                order by n.position limit 1) first)
