-- Prepared transactions of any database, the oldest first. No parameters. Rows: identifier, database, milliseconds.
select gid, database, (extract(epoch from clock_timestamp() - prepared) * 1000)::bigint from pg_prepared_xacts order by prepared limit 100
