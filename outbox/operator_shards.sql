-- The shards, who relays them and how it goes. What follows the frontier is looked at up to $1 events a shard, and the rate is
-- that of the owner's receipts among the $1 highest, in the last 10 seconds.
-- $1 events. Rows: shard, owner (id and name, '' = nobody), claim_version, frontier, events after it that are neither sent nor
-- parked, whether there were more to look at, sent per second, takeovers without progress, the event under suspicion, its
-- tries, the last error of its held topics and parked events.
-- Indexes: outbox_shard_position_key, outbox_receipt_pkey, outbox_parked_pkey.
with failure as materialized (
  select distinct on (shard) shard, last_error
    from (select shard, last_error, updated_at as at from {{schema}}.outbox_parked where last_error <> '' and state <> 'discarded'
           union all
          select shard, last_error, since from {{schema}}.outbox_lane where last_error <> '') e
   order by shard, at desc
)
select s.shard, coalesce(s.relay_id::text, ''), coalesce(l.name, ''), s.claim_version, s.frontier_position,
       after.lag, after.seen >= $1::bigint, rate.per_second, s.takeovers,
       coalesce((select o.event_id from {{schema}}.outbox o where o.shard = s.shard and o.position = s.suspect), ''), s.suspect_tries,
       coalesce(failure.last_error, '')
  from {{schema}}.outbox_shard s
  left join {{schema}}.outbox_relay l on l.relay_id = s.relay_id
  left join failure on failure.shard = s.shard
 cross join lateral (
       select count(*) as seen,
              count(*) filter (where (select true from {{schema}}.outbox_receipt r where r.shard = n.shard and r.position = n.position) is null
                and (select true from {{schema}}.outbox_parked p where p.shard = n.shard and p.position = n.position) is null) as lag
         from (select o.shard, o.position from {{schema}}.outbox o
                where o.shard = s.shard and o.position > s.frontier_position
                order by o.position limit $1::bigint) n) after
 cross join lateral (
       -- Where the rows end before the 10 seconds do, they say how long they took.
       select (count(*) filter (where fresh) / case when count(*) = $1::bigint and bool_and(fresh)
                then greatest(extract(epoch from {{schema}}.clock() - min(sent_at)), 0.001) else 10 end)::float8 as per_second
         from (select r.sent_at, r.claim_version = s.claim_version and r.sent_at > {{schema}}.clock() - interval '10 seconds' as fresh
                 from {{schema}}.outbox_receipt r where r.shard = s.shard
                order by r.position desc limit $1::bigint) n) rate
 order by s.shard
