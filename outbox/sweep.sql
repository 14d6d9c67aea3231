-- Looks below the stored frontier for events that are not settled. There should never be one: whatever it finds was
-- overlooked by the reader, because its transaction id or position is not what this cluster gave it.
-- An event that is merely late is the reader's to find, so only what the stored snapshot claims to have seen counts,
-- and what bears a transaction id from the future.
-- $1 shards, $2 their stored snapshots, $3 their stored positions, $4 from position (exclusive), $5 to position,
-- $6 rows at most. Rows: one event, its columns as in read.sql. Indexes: outbox_shard_position_key, outbox_receipt_pkey, each
-- read in one go; looking up every receipt by itself takes three times as long.
select o.shard, o.position, o.event_id, o.topic, o.kind, o.aggregate_type, o.aggregate_id, o.aggregate_version,
       o.event_type, o.event_version, o.tenant, o.partition_key, o.payload, nullif(o.metadata, '{}') as metadata, o.created_at
  from unnest($1::smallint[], $2::text[], $3::bigint[]) f(shard, snapshot, position)
 cross join lateral (
       select e.position from {{schema}}.outbox e
        where e.shard = f.shard and e.position > $4::bigint and e.position <= least($5::bigint, f.position)
       except
       select r.position from {{schema}}.outbox_receipt r
        where r.shard = f.shard and r.position > $4::bigint and r.position <= least($5::bigint, f.position)) missing
 cross join lateral (
       select e.* from {{schema}}.outbox e where e.shard = f.shard and e.position = missing.position offset 0) o
 where pg_visible_in_snapshot(o.xid, f.snapshot::pg_snapshot) or o.xid >= pg_snapshot_xmax(pg_current_snapshot())
 order by o.position
 limit $6::int
