-- How much is waiting and for how long, for metrics. Looks only above what each shard's owner has stored as settled, so
-- the few events that committed late, below that, are left out; and counts 100,000 at most, so that a large backlog does
-- not make looking at it expensive.
-- Rows: one, (count, age of the oldest in seconds or 0). Indexes: outbox_shard_position_key, outbox_receipt_pkey.
select (select count(*)
          from (select
                  from {{schema}}.outbox_shard s
                  join {{schema}}.outbox o on o.shard = s.shard and o.position > s.frontier_position
                 where not exists (select from {{schema}}.outbox_receipt r where r.shard = o.shard and r.position = o.position)
                 limit 100000) waiting),
       (select coalesce(extract(epoch from {{schema}}.clock() - min(first.created_at)), 0)::float8
          from {{schema}}.outbox_shard s
         cross join lateral (
               select o.created_at from {{schema}}.outbox o
                where o.shard = s.shard and o.position > s.frontier_position
                  and not exists (select from {{schema}}.outbox_receipt r where r.shard = o.shard and r.position = o.position)
                order by o.position limit 1) first)
