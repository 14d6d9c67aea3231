-- The lowest position there is in the given shards: where a full sweep begins.
-- $1 shards. One row: position, 0 if there is none. Index: outbox_shard_position_key, one probe a shard.
select coalesce(min((select min(o.position) from {{schema}}.outbox o where o.shard = f.shard)), 0)
  from unnest($1::smallint[]) f(shard)
