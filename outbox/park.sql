-- Writes parked rows under the owner's tokens, as settle.sql writes receipts: new ones in the order given, which is the order
-- of their key, and changes to rows, unless an operator has changed them since they were read.
-- $1 shards, $2 claim_ids, $3 claim_versions: the tokens; $4 anchor; $5 relay name for the audit; of the events $6 shards,
-- $7 positions, $8 event_ids, $9 states, $10 whether they block, $11 attempts, $12 milliseconds until due (0 = not),
-- $13 stages, $14 error classes, $15 error texts ('' = none), $16 revisions of their rows (-1 = none yet), $17 whether followers
-- pass by policy.
-- Rows: the shards this owner still holds. Indexes: outbox_shard_pkey, outbox_shard_position_key, outbox_parked_pkey.
with mine as materialized (
  select s.shard
    from {{schema}}.outbox_shard s
    join unnest($1::smallint[], $2::text[]::uuid[], $3::bigint[]) t(shard, claim_id, claim_version)
      on s.shard = t.shard and s.claim_id = t.claim_id and s.claim_version = t.claim_version
   where {{schema}}.anchor() = $4::text
   order by s.shard
     for key share of s
), u as materialized (
  select u.shard, u.position, u.event_id, u.state, u.blocks, u.attempts, u.delay, nullif(u.stage, '') as stage, nullif(u.class, '') as class,
         nullif(u.error, '') as error, u.revision, u.skipped, u.n
    from unnest($6::smallint[], $7::bigint[], $8::text[], $9::text[], $10::boolean[], $11::int[], $12::bigint[], $13::text[], $14::text[], $15::text[],
                $16::int[], $17::boolean[]) with ordinality
         u(shard, position, event_id, state, blocks, attempts, delay, stage, class, error, revision, skipped, n)
    join mine using (shard)
), added as (
  insert into {{schema}}.outbox_parked (shard, position, event_id, topic, partition_key, aggregate_type, aggregate_id, state, blocks, attempts,
                                        due_at, stage, error_class, first_error, last_error)
  select o.shard, o.position, o.event_id, o.topic, o.partition_key, o.aggregate_type, o.aggregate_id, u.state, u.blocks, u.attempts,
         case u.state when 'scheduled' then o.deliver_at when 'retrying' then {{schema}}.clock() + u.delay * interval '1 millisecond' end,
         u.stage, u.class, u.error, u.error
    from u
   cross join lateral (
         select o.* from {{schema}}.outbox o
          where o.shard = u.shard and o.position = u.position and o.event_id = u.event_id offset 0) o
   where u.revision < 0
   order by u.n
  on conflict do nothing
), moved as materialized (
  -- An event whose time has come joins its key behind what waits there; one that has a place keeps it.
  select m.n, nextval(pg_get_serial_sequence('{{schema}}.outbox_parked', 'entry')) as entry
    from (select u.n
            from u
            join {{schema}}.outbox_parked p on p.shard = u.shard and p.position = u.position
           where u.revision >= 0 and u.state = 'blocked' and not p.blocks order by u.n) m
), changed as (
  update {{schema}}.outbox_parked p
     set state = u.state, blocks = u.blocks, attempts = u.attempts,
         due_at = case u.state when 'retrying' then {{schema}}.clock() + u.delay * interval '1 millisecond' end,
         stage = u.stage, error_class = u.class, first_error = coalesce(p.first_error, u.error), last_error = coalesce(u.error, p.last_error),
         entry = coalesce(moved.entry, p.entry), updated_at = {{schema}}.clock()
    from u left join moved on moved.n = u.n
   where p.shard = u.shard and p.position = u.position and p.revision = u.revision
  returning u.n
), skipped as (
  insert into {{schema}}.audit (actor, action, subject, reason, detail)
  select 'relay ' || $5::text, 'outbox.skip', u.event_id, 'policy skip of its topic', jsonb_build_object('event_id', u.event_id, 'error_class', u.class)
    from u where u.skipped and (u.revision < 0 or u.n in (select n from changed))
)
select shard from mine
