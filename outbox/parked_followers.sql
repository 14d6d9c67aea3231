-- Reads the events that wait in keys nothing blocks any longer, in the order of each key.
-- Of the keys $1 shards, $2 topics, $3 partition keys, $8 the entries up to which they have been read; $4 rows of each key, $5
-- bytes at most, $6 shards and $7 positions of events above those that are in memory already: a few in flight.
-- Rows: number of the key, whether it has more than was read, then a record as of parked_due.sql, in order; null for a key
-- without events. Where bytes cut, every key cut has more. Indexes: outbox_parked_key_idx, outbox_shard_position_key.
with k as materialized (
  select * from unnest($1::smallint[], $2::text[], $3::text[], $8::bigint[]) with ordinality k(shard, topic, key, after, number)
), p as materialized (
  select k.number, p.*, row_number() over (partition by k.number order by p.entry) as place
    from k
   cross join lateral (
         select p.* from {{schema}}.outbox_parked p
          where p.shard = k.shard and p.topic = k.topic and p.partition_key = k.key and p.blocks and p.entry > k.after
            and not exists (select from unnest($6::smallint[], $7::bigint[]) l(shard, position) where l.shard = p.shard and l.position = p.position)
          order by p.entry
          limit $4::int + 1) p
), sized as (
  select p.number, p.place, p.entry, p.state, p.blocks, p.attempts, p.revision, p.topic_override, p.metadata_override,
         sum(200 + coalesce(octet_length(o.payload), 0) + pg_column_size(o.metadata)) over (order by p.place, p.number rows between unbounded preceding and 1 preceding) as before,
         o.shard, o.position, o.event_id, o.topic, o.kind, o.aggregate_type, o.aggregate_id, o.aggregate_version,
         o.event_type, o.event_version, o.tenant, o.partition_key, o.payload, o.metadata, o.created_at
    from p
   cross join lateral (select o.* from {{schema}}.outbox o where o.shard = p.shard and o.position = p.position and o.event_id = p.event_id offset 0) o
), taken as (
  select * from sized where place <= $4::int and (before is null or before < $5::bigint)
)
select k.number, (select count(*) from taken t where t.number = k.number) < (select count(*) from p where p.number = k.number),
       taken.record
  from k left join (
    select number, place, record_send(row(state, blocks, attempts, revision, entry, topic_override, metadata_override, {{event}})) as record from taken) taken
    on taken.number = k.number
 order by k.number, taken.place
