-- The keys in which events wait, and of what aggregate the first is.
-- $1 shards. Rows: shard, topic, partition key, whether a refused event is at its head, aggregate type and id or ''.
-- Index: outbox_parked_key_idx.
select p.shard, p.topic, p.partition_key, bool_or(p.state in ('retrying', 'quarantined')),
       coalesce((array_agg(p.aggregate_type order by p.entry))[1], ''), coalesce((array_agg(p.aggregate_id order by p.entry))[1], '')
  from {{schema}}.outbox_parked p
 where p.blocks and p.shard = any($1::smallint[])
 group by p.shard, p.topic, p.partition_key
