-- What the statistics know of the tables. $1 schema. Rows: whether autovacuum runs at all, table, whether it is enabled for it,
-- live rows, dead rows, rows ever updated, bytes with indexes. Catalog look-ups.
select current_setting('autovacuum')::boolean and current_setting('track_counts')::boolean, c.relname,
       coalesce((select o.option_value::boolean from pg_options_to_table(c.reloptions) o where o.option_name = 'autovacuum_enabled'), true),
       coalesce(s.n_live_tup, 0), coalesce(s.n_dead_tup, 0), coalesce(s.n_tup_upd, 0), pg_total_relation_size(c.oid)
  from pg_class c
  left join pg_stat_all_tables s on s.relid = c.oid
 where c.relnamespace = to_regnamespace(quote_ident($1)) and c.relkind = 'r'
 order by c.relname
