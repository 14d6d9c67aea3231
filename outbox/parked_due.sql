-- Reads parked events that are due, the longest due first, and when the next will be.
-- $1 shards, $2 topics that are held, $3 rows and $4 bytes at most, $5 shards and $6 positions of events in memory already, $7
-- milliseconds: only what was due that long ago (a limited run tries nothing twice).
-- Rows: milliseconds until something else is due (null = never; 0 if some were left out), then as a record state, whether it
-- blocks, attempts, revision, entry, topic and metadata overrides and the event, or null when none is due.
-- Indexes: outbox_parked_due_idx, outbox_shard_position_key.
with p as materialized (
  select p.*
    from unnest($1::smallint[]) f(shard)
   cross join lateral (
         select p.* from {{schema}}.outbox_parked p
          where p.shard = f.shard and p.due_at <= {{schema}}.clock() - $7::bigint * interval '1 millisecond'
            and coalesce(p.topic_override, p.topic) <> all($2::text[])
            and not exists (select from unnest($5::smallint[], $6::bigint[]) l(shard, position) where l.shard = p.shard and l.position = p.position)
          order by p.due_at, p.entry
          limit $3::int + 1) p
   order by p.due_at, p.entry
   limit $3::int + 1
), sized as (
  select p.due_at, p.entry, p.state, p.blocks, p.attempts, p.revision, p.topic_override, p.metadata_override,
         row_number() over (order by p.due_at, p.entry) as number,
         sum(200 + coalesce(octet_length(o.payload), 0) + pg_column_size(o.metadata)) over (order by p.due_at, p.entry rows between unbounded preceding and 1 preceding) as before,
         o.shard, o.position, o.event_id, o.topic, o.kind, o.aggregate_type, o.aggregate_id, o.aggregate_version,
         o.event_type, o.event_version, o.tenant, o.partition_key, o.payload, o.metadata, o.created_at
    from p
   cross join lateral (select o.* from {{schema}}.outbox o where o.shard = p.shard and o.position = p.position and o.event_id = p.event_id offset 0) o
), taken as (
  select * from sized where number <= $3::int and (before is null or before < $4::bigint)
)
select case when (select count(*) from taken) < (select count(*) from p) then 0
            else (select ceil(extract(epoch from min(n.due_at) - {{schema}}.clock()) * 1000)::bigint
                    from unnest($1::smallint[]) f(shard)
                   cross join lateral (
                         select n.due_at from {{schema}}.outbox_parked n
                          where n.shard = f.shard and n.due_at > {{schema}}.clock() - $7::bigint * interval '1 millisecond' order by n.due_at limit 1) n) end,
       case when number is not null then record_send(row(state, blocks, attempts, revision, entry, topic_override, metadata_override, {{event}})) end
  from (select) one left join taken on true
 order by number
