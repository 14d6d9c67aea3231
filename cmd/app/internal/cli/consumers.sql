-- Which consumers know an event. The primary key begins with the consumer, so this steps from one consumer to the next
-- instead of reading the whole table.
-- $1 event_id. Rows: (consumer), in order. Index: inbox_pkey.
with recursive consumers(consumer) as (
  (select consumer from {{schema}}.inbox order by consumer limit 1)
  union all
  select (select i.consumer from {{schema}}.inbox i where i.consumer > c.consumer order by i.consumer limit 1)
    from consumers c where c.consumer is not null
)
select consumer from consumers c
 where exists (select from {{schema}}.inbox i where i.consumer = c.consumer and i.event_id = $1::text)
 order by consumer
