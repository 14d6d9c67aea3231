-- Reads a page of late events, in position order, while there are more of them than read.sql returns: those visible in the
-- snapshot T under which that was found, not visible in the shard's snapshot S, at positions up to P.
--
-- $1 shards smallint[], $2 their positions P, $3 their groups: indexes, from 1, into $4 snapshots S text[]; $5 snapshot T,
-- $6 the last position handed out by the pages before, $7 rows and $8 bytes at most.
-- Rows: snapshot now, anchor, number of rows before the byte limit, again that number, false, then one event in position order,
-- or nulls when none is left. Indexes: outbox_xid_position_idx, outbox_shard_position_key, outbox_receipt_pkey.
--
-- A page of one transaction is found by a seek to where the last one ended, so that millions of late events cost each page no
-- more than its own rows. Of the transactions younger than S, which began and ended between two reads, all are looked at.
with f as materialized (
  select * from unnest($1::smallint[], $2::bigint[], $3::int[]) u(shard, position, g)
), range as materialized (
  select s.g, s.position, x.first, x.last
    from (select g, max(position) as position, ($4::text[])[g]::pg_snapshot as snapshot from f group by g having max(position) > 0) s
   cross join lateral (
         select pg_snapshot_xmax(s.snapshot) as first, pg_snapshot_xmax($5::text::pg_snapshot) as last
         union all
         select xip, xip from pg_snapshot_xip(s.snapshot) xip where pg_visible_in_snapshot(xip, $5::text::pg_snapshot)) x
), page as materialized (
  select o.shard, o.position
    from range
   cross join lateral (
         select o.shard, o.position from {{schema}}.outbox o
          where o.xid >= range.first and o.xid <= range.last and (o.xid, o.position) > (range.first, $6::bigint)
            and o.position > $6::bigint and o.position <= range.position
            and pg_visible_in_snapshot(o.xid, $5::text::pg_snapshot)
            and exists (select from f where f.g = range.g and f.shard = o.shard and o.position <= f.position)
            and (select r.position from {{schema}}.outbox_receipt r where r.shard = o.shard and r.position = o.position) is null
          order by o.xid, o.position
          limit case when range.first = range.last then $7::int end) o
   order by o.position
   limit $7::int
), sized as (
  select o.*, count(*) over () as total,
         sum(200 + coalesce(octet_length(o.payload), 0) + pg_column_size(o.metadata)) over (order by o.position rows between unbounded preceding and 1 preceding) as before
    from page
   cross join lateral (select o.* from {{schema}}.outbox o where o.shard = page.shard and o.position = page.position offset 0) o
)
select pg_current_snapshot()::text, {{schema}}.anchor(), (select count(*) from page), p.*
  from (select) one
  left join (
    select total, false as fresh, shard, position, event_id, topic, kind, aggregate_type, aggregate_id, aggregate_version,
           event_type, event_version, tenant, partition_key, payload, payload is null, nullif(metadata, '{}') as metadata, created_at
      from sized where before is null or before < $8::bigint) p on true
 order by p.position
