-- Replication slots and how far they hold dead rows back. No parameters. Rows: name, whether anybody reads it, age of its
-- horizon in transactions or null.
select slot_name, active, greatest(age(xmin), age(catalog_xmin)) from pg_replication_slots order by 3 desc nulls last limit 100
