-- Counts what is before and behind a place in the order of a key.
-- $1 shard, $2 topic, $3 partition key, $4 entry. One row: ahead, behind. Index: outbox_parked_key_idx.
select count(*) filter (where entry < $4::bigint), count(*) filter (where entry > $4::bigint)
  from {{schema}}.outbox_parked
 where blocks and shard = $1::smallint and topic = $2::text and partition_key = $3::text
