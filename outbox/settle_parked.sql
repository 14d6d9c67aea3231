-- Writes receipts as settle.sql does, for events that have a parked row: the row goes, and the receipt says where the event went
-- if that was not its own topic.
-- $1 to $10 as of settle.sql; $11 the topics of the events, '' = their own.
-- The lateral join makes it look the events up; left to itself it reads the whole table where that seems cheaper.
-- Rows: the shards this owner still holds. Indexes: outbox_shard_pkey, outbox_shard_position_key, outbox_parked_pkey.
with mine as materialized (
  select s.shard, s.claim_version
    from {{schema}}.outbox_shard s
    join unnest($1::smallint[], $2::text[]::uuid[], $3::bigint[]) t(shard, claim_id, claim_version)
      on s.shard = t.shard and s.claim_id = t.claim_id and s.claim_version = t.claim_version
   where {{schema}}.anchor() = $4::text
   order by s.shard
     for key share of s
), sent as materialized (
  select o.shard, o.position, u.kafka_partition, u.kafka_offset, u.attempts, u.topic, mine.claim_version
    from unnest($5::smallint[], $6::bigint[], $7::text[], $8::int[], $9::bigint[], $10::int[], $11::text[])
         u(shard, position, event_id, kafka_partition, kafka_offset, attempts, topic)
    join mine on mine.shard = u.shard
   cross join lateral (
         select o.shard, o.position from {{schema}}.outbox o
          where o.shard = u.shard and o.position = u.position and o.event_id = u.event_id offset 0) o
), written as (
  insert into {{schema}}.outbox_receipt (shard, position, kafka_partition, kafka_offset, attempts, claim_version, topic)
  select shard, position, nullif(kafka_partition, -1), nullif(kafka_offset, -1), attempts, claim_version, nullif(topic, '')
    from sent
  on conflict do nothing
), gone as (
  delete from {{schema}}.outbox_parked p using sent where p.shard = sent.shard and p.position = sent.position
)
select shard from mine
