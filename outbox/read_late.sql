-- Reads a page of late events, in position order, while there are more of them than read.sql returns: those visible in the
-- snapshot T under which that was found, not visible in the shard's snapshot S, at positions up to P.
--
-- Of each lane $1 shard smallint[], $2 position P, $3 group: an index, from 1, into $4 snapshots S text[], $9 the only topic or
-- '', $10 the topics excluded, with commas between; $5 snapshot T, $6 the last position handed out by the pages before, $7 rows
-- and $8 bytes at most, $11 the highest P of each group.
-- Rows: as of read.sql, or nulls when none is left.
-- Indexes: outbox_xid_position_idx, outbox_shard_position_key, outbox_receipt_pkey.
--
-- A page of one transaction is found by a seek to where the last one ended, so that millions of late events cost each page no
-- more than its own rows. Of the transactions younger than S, which began and ended between two reads, all are looked at.
with f as materialized (
  select u.shard, u.position, u.g, nullif(u.topic, '') as topic, string_to_array(u.excluded, ',') as excluded, u.n::int as lane
    from unnest($1::smallint[], $2::bigint[], $3::int[], $9::text[], $10::text[]) with ordinality u(shard, position, g, topic, excluded, n)
), range as materialized (
  select s.g, s.position, x.first, x.last
    from (select n as g, position, snapshot::pg_snapshot from unnest($4::text[], $11::bigint[]) with ordinality s(snapshot, position, n) where position > 0) s
   cross join lateral (
         select pg_snapshot_xmax(s.snapshot) as first, pg_snapshot_xmax($5::text::pg_snapshot) as last
         union all
         select xip, xip from pg_snapshot_xip(s.snapshot) xip where pg_visible_in_snapshot(xip, $5::text::pg_snapshot)) x
), page as materialized (
  select o.shard, o.position, o.xid, o.lane
    from range
   cross join lateral (
         select o.shard, o.position, o.xid,
                (select min(f.lane) from f where f.g = range.g and f.shard = o.shard and o.position <= f.position
                    and case when f.topic is null then o.topic <> all(f.excluded) else o.topic = f.topic end) as lane
           from {{schema}}.outbox o
          where o.xid >= range.first and o.xid <= range.last and (o.xid, o.position) > (range.first, $6::bigint)
            and o.position > $6::bigint and o.position <= range.position
            and pg_visible_in_snapshot(o.xid, $5::text::pg_snapshot)
            and exists (select from f where f.g = range.g and f.shard = o.shard and o.position <= f.position
                           and case when f.topic is null then o.topic <> all(f.excluded) else o.topic = f.topic end)
            and (select r.position from {{schema}}.outbox_receipt r where r.shard = o.shard and r.position = o.position) is null
            and (select p.position from {{schema}}.outbox_parked p where p.shard = o.shard and p.position = o.position) is null
          order by o.xid, o.position
          limit case when range.first = range.last then $7::int end) o
   order by o.position
   limit $7::int
), sized as (
  select q.*, sum(size) over (order by position rows unbounded preceding) as through
    from (select page.lane, o.*, 200 + coalesce(octet_length(o.payload), 0) + pg_column_size(o.metadata) as size
            from page
           cross join lateral (select o.* from {{schema}}.outbox o where o.shard = page.shard and o.position = page.position and o.xid = page.xid offset 0) o) q
)
select case when first is not false then json_build_object(
         'snapshot', pg_current_snapshot()::text, 'anchor', {{schema}}.anchor(), 'version', (select version from {{schema}}.outbox_control),
         'late', (select count(*) from page))::text end,
       record
  from (select) one
  left join (
    select record_send(row(lane, false, through >= $8::bigint,
                           case when deliver_at > {{schema}}.clock() then ceil(extract(epoch from deliver_at - {{schema}}.clock()) * 1000)::bigint end,
                           {{event}})) as record, through = size as first
      from sized where through - size < $8::bigint) p on true
