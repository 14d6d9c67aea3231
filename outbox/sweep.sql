-- Looks below the stored frontier for events that are not settled. There should never be one: whatever it finds was
-- overlooked by the reader, because its transaction id or position is not what this cluster gave it.
-- An event that is merely late is the reader's to find, so only what the stored snapshot claims to have seen counts,
-- and what bears a transaction id from the future.
-- Of each lane $1 shard, $2 stored snapshot, $3 stored position, $8 the only topic or '', $9 the topics excluded, with commas
-- between; $4 from position (exclusive), $5 to position,
-- $6 rows and $7 bytes at most. Rows: as a record the milliseconds until the event is due or null, and the event. Indexes: outbox_shard_position_key, outbox_receipt_pkey,
-- outbox_parked_pkey, each read in one go; looking up every receipt by itself takes three times as long.
select record_send(row(case when deliver_at > {{schema}}.clock() then ceil(extract(epoch from deliver_at - {{schema}}.clock()) * 1000)::bigint end,
                       {{event}}))
  from (
    select e.*, sum(200 + coalesce(octet_length(e.payload), 0) + pg_column_size(e.metadata))
                  over (order by e.position rows between unbounded preceding and 1 preceding) as before
      from unnest($1::smallint[], $2::text[], $3::bigint[], $8::text[], $9::text[]) f(shard, snapshot, position, topic, excluded)
     cross join lateral (
           select e.position from {{schema}}.outbox e
            where e.shard = f.shard and e.position > $4::bigint and e.position <= least($5::bigint, f.position)
           except
           select r.position from {{schema}}.outbox_receipt r
            where r.shard = f.shard and r.position > $4::bigint and r.position <= least($5::bigint, f.position)
           except
           select p.position from {{schema}}.outbox_parked p
            where p.shard = f.shard and p.position > $4::bigint and p.position <= least($5::bigint, f.position)) missing
     cross join lateral (
           select e.* from {{schema}}.outbox e where e.shard = f.shard and e.position = missing.position offset 0) e
     where (pg_visible_in_snapshot(e.xid, f.snapshot::pg_snapshot) or e.xid >= pg_snapshot_xmax(pg_current_snapshot()))
       and f.topic in ('', e.topic) and e.topic <> all(string_to_array(f.excluded, ','))
     order by e.position
     limit $6::int) o
 where o.before is null or o.before < $7::bigint
 order by o.position
