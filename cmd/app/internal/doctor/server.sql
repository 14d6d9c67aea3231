-- Settings as this role has them in this database. No parameters. One row: version number and text, whether it is a standby,
-- synchronous_commit, fsync, full_page_writes, wal_level, isolation, timeouts in milliseconds (idle in transaction, statement,
-- lock), jit, plan_cache_mode. Of settings alone pg_settings tells milliseconds; nothing else is read.
select current_setting('server_version_num')::integer, current_setting('server_version'), pg_is_in_recovery(),
       current_setting('synchronous_commit'), current_setting('fsync')::boolean, current_setting('full_page_writes')::boolean,
       current_setting('wal_level'), current_setting('default_transaction_isolation'),
       (select setting::bigint from pg_settings where name = 'idle_in_transaction_session_timeout'),
       (select setting::bigint from pg_settings where name = 'statement_timeout'),
       (select setting::bigint from pg_settings where name = 'lock_timeout'),
       current_setting('jit'), current_setting('plan_cache_mode')
