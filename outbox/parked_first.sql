-- Why events were parked in the first place, for the log.
-- $1 shard smallint[], $2 position bigint[], side by side. Rows: shard, position, first error or ''.
-- Index: outbox_parked_pkey.
select p.shard, p.position, coalesce(p.first_error, '')
  from unnest($1::smallint[], $2::bigint[]) u(shard, position)
  join {{schema}}.outbox_parked p on p.shard = u.shard and p.position = u.position
