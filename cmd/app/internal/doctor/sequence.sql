-- The sequence of positions. $1 the outbox, schema and table, not quoted. One row: name, cache, whether this role may look at
-- it (newer servers do not say that it may not), last value handed out (null if none), highest position in the table. Index:
-- outbox_shard_position_key, one probe a shard.
select q.name, s.seqcache, q.readable, case when q.readable then pg_sequence_last_value(s.seqrelid) end,
       (select max(h.position)
          from {{schema}}.outbox_shard s
         cross join lateral (select max(o.position) as position from {{schema}}.outbox o where o.shard = s.shard) h)
  from (select n.name, has_sequence_privilege(n.name, 'USAGE, SELECT') as readable
          from (select pg_get_serial_sequence(quote_ident(split_part($1, '.', 1)) || '.' || quote_ident(split_part($1, '.', 2)), 'position') as name) n) q
  join pg_sequence s on s.seqrelid = q.name::regclass
