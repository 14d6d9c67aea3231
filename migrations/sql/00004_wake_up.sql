-- Wake-up: a transaction that writes an event notifies the relays when it commits, so that they need not look all the time.
-- It is a hint and no more; what nobody notified of is found by polling.
--
-- To switch it off, for transactions that end in PREPARE TRANSACTION, which NOTIFY makes impossible:
--   alter table {{schema}}.outbox disable trigger outbox_wake_up;
-- and "enable trigger" to switch it on again.

-- +goose Up

-- +goose StatementBegin
create function {{schema}}.outbox_wake_up() returns trigger language plpgsql as $$
begin
  -- Transactions that notify commit one after the other, so only the one does that gets the lock of the current 50 ms: with
  -- one lock for all times, a transaction that stays open would silence all others. It notifies once, or it would collect
  -- locks for as long as it writes events. And not into a queue that somebody else fills: a full one fails the commit.
  if coalesce(current_setting('millrace.woken_' || tg_relid, true), '') = ''
     and pg_try_advisory_xact_lock(tg_relid::int, (floor(extract(epoch from {{schema}}.clock()) * 20)::bigint % 2000000000)::int)
     and pg_notification_queue_usage() < 0.5 then
    perform set_config('millrace.woken_' || tg_relid, 'on', true), pg_notify(left('outbox_wake_up_' || tg_table_schema, 63), '');
  end if;
  return null;
end
$$;
-- +goose StatementEnd

create trigger outbox_wake_up after insert on {{schema}}.outbox for each statement execute function {{schema}}.outbox_wake_up();

-- +goose Down
drop trigger outbox_wake_up on {{schema}}.outbox;
drop function {{schema}}.outbox_wake_up();
