-- How many shards there are. $1 schema. One row: rows of outbox_shard, whether they are 0, 1, 2 and so on, and the number in its
-- constraint and in the expression of outbox.shard, null where those are not as migrated. A catalog look-up and a small table.
select s.rows, s.highest = s.rows - 1,
       (select substring(pg_get_constraintdef(c.oid) from '\((\d+) - 1\)')::bigint from pg_constraint c
         where c.conrelid = to_regclass(quote_ident($1) || '.outbox_shard') and c.contype = 'c'
           and pg_get_constraintdef(c.oid) ~ '\(\d+ - 1\)' limit 1),
       (select substring(pg_get_expr(d.adbin, d.adrelid) from '\((\d+)\)::bigint\)\)::smallint$')::bigint
          from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
         where d.adrelid = to_regclass(quote_ident($1) || '.outbox') and a.attname = 'shard')
  from (select count(*) as rows, coalesce(max(shard), -1) as highest from {{schema}}.outbox_shard) s
