-- The lanes of shards just claimed.
-- $1 shards. Rows: shard, topic, frontier snapshot and position, held, reason, last error, failures. Index: outbox_lane_pkey.
select shard, topic, frontier_snapshot::text, frontier_position, held, reason, last_error, failures
  from {{schema}}.outbox_lane
 where shard = any($1::smallint[])
