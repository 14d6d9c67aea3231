-- The highest position in each shard just claimed: up to there events may be settled already, by an earlier owner.
-- $1 shards. Rows: shard, position. Index: outbox_shard_position_key, one probe a shard.
select f.shard, coalesce((select max(o.position) from {{schema}}.outbox o where o.shard = f.shard), 0)
  from unnest($1::smallint[]) f(shard)
