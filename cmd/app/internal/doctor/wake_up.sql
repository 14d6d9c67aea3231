-- Whether writers tell of new events. $1 schema. One row: whether the trigger is enabled, max_prepared_transactions. A catalog
-- look-up; a missing table raises an error.
select coalesce((select t.tgenabled <> 'D' from pg_trigger t
                  where t.tgrelid = (quote_ident($1) || '.outbox')::regclass and t.tgname = 'outbox_wake_up'), false),
       current_setting('max_prepared_transactions')::integer
