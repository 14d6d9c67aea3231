-- Writes receipts for what the broker acknowledged. The shard rows are locked under the owner's token first: a takeover
-- that has committed makes this write nothing, one that has not waits. An event is matched by position and event_id, so that
-- a receipt for a position that came to mean another event is not written. Autocommit, one statement: a frozen process
-- never holds the lock.
-- $1 shards, $2 claim_ids, $3 claim_versions: the tokens; $4 anchor; $5 shards, $6 positions, $7 event_ids, $8 partitions,
-- $9 offsets (-1 = unknown), $10 attempts of the events.
-- The lateral join makes it look the events up; left to itself it reads the whole table where that seems cheaper.
-- Rows: the shards this owner still holds. Indexes: outbox_shard_pkey, outbox_shard_position_key.
with mine as materialized (
  select s.shard, s.claim_version
    from {{schema}}.outbox_shard s
    join unnest($1::smallint[], $2::text[]::uuid[], $3::bigint[]) t(shard, claim_id, claim_version)
      on s.shard = t.shard and s.claim_id = t.claim_id and s.claim_version = t.claim_version
   where {{schema}}.anchor() = $4::text
   order by s.shard
     for key share of s
), written as (
  insert into {{schema}}.outbox_receipt (shard, position, kafka_partition, kafka_offset, attempts, claim_version)
  select o.shard, o.position, nullif(u.kafka_partition, -1), nullif(u.kafka_offset, -1), u.attempts, mine.claim_version
    from unnest($5::smallint[], $6::bigint[], $7::text[], $8::int[], $9::bigint[], $10::int[])
         u(shard, position, event_id, kafka_partition, kafka_offset, attempts)
    join mine on mine.shard = u.shard
   cross join lateral (
         select o.shard, o.position from {{schema}}.outbox o
          where o.shard = u.shard and o.position = u.position and o.event_id = u.event_id offset 0) o
  on conflict do nothing
)
select shard from mine
