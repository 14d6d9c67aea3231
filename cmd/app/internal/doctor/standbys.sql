-- Standbys that report their horizon without a slot. No parameters. Rows: application, true, age of its horizon in transactions
-- or null.
select coalesce(nullif(application_name, ''), 'pid ' || pid), true, age(backend_xmin) from pg_stat_replication order by 3 desc nulls last limit 100
