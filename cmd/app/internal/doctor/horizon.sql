-- Transactions that hold the horizon back, in any database, the oldest first, those whose age this role may not see behind
-- them. Their statements are not read. No parameters. Rows: pid, application, database, state, whether it has a transaction id,
-- milliseconds since it began or null. Vacuum and the like do not count: others do not wait for them.
select a.pid, coalesce(nullif(a.application_name, ''), 'no application name'), coalesce(a.datname, 'no database'), coalesce(a.state, 'unknown'),
       a.backend_xid is not null, (extract(epoch from clock_timestamp() - a.xact_start) * 1000)::bigint
  from pg_stat_activity a
 where (a.backend_xid is not null or a.backend_xmin is not null) and a.pid <> pg_backend_pid()
   and coalesce(a.backend_type, 'client backend') not in ('autovacuum worker', 'walsender')
 order by a.xact_start nulls last, a.pid
 limit 1000
