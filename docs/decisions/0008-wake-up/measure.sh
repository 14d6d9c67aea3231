#!/usr/bin/env bash
# Measures what the ways of notifying in record 0008 cost a business transaction: one update and one event.
#
#   docs/decisions/0008-wake-up/measure.sh DATABASE_URL [ROUNDS [SECONDS]]
#
# It needs psql, pgbench and a database that "millrace migrate up" has been run on, into which it writes events; it makes
# the tables wake_up_account and wake_up_stock (as watermill-sql makes its own) and removes them again.
set -euo pipefail
database=${1:?a database URL is needed}
rounds=${2:-9}
seconds=${3:-2}
scratch=$(mktemp -d)
listening=
trap 'sql "drop table if exists wake_up_account, wake_up_stock; drop trigger if exists wake_up_always on millrace.outbox;
  drop function if exists wake_up_always; alter table millrace.outbox enable trigger outbox_wake_up"; rm -rf "$scratch"; kill $listening' EXIT

sql() { PGOPTIONS='-c client_min_messages=warning' psql -X -q -At "$database" -c "$1"; }

sql "create table wake_up_account (id int primary key, n int) with (fillfactor = 50);
  insert into wake_up_account select n, 0 from generate_series(1, 10000) n;
  create table wake_up_stock (\"offset\" bigserial, uuid varchar(36) not null, created_at timestamp not null default current_timestamp,
    payload json default null, metadata json default null, transaction_id xid8 not null, primary key (transaction_id, \"offset\"));
  create function wake_up_always() returns trigger language plpgsql as 'begin notify outbox_wake_up_millrace; return null; end';
  create trigger wake_up_always after insert on millrace.outbox for each statement execute function wake_up_always();"

payload="{\"text\": \"$(printf 'x%.0s' {1..280})\"}"
business='\set id random(1, 10000)
begin;
update wake_up_account set n = n + 1 where id = :id;'
event="insert into millrace.outbox (event_id, topic, payload) values (gen_random_uuid()::text, 'orders', '$payload')"
lock="pg_try_advisory_xact_lock('millrace.outbox'::regclass::int, (floor(extract(epoch from clock_timestamp()) * 20)::bigint % 2000000000)::int)"
printf '%s\ninsert into wake_up_stock (uuid, payload, metadata, transaction_id) values (gen_random_uuid()::text, '"'%s'"', '"'{}'"', pg_current_xact_id());\ncommit;\n' "$business" "$payload" >"$scratch/stock"
printf '%s\n%s;\ncommit;\n' "$business" "$event" | tee "$scratch/silent" "$scratch/trigger" >"$scratch/always"
printf "%s\nwith e as (%s) select pg_notify('outbox_wake_up_millrace', '') where %s;\ncommit;\n" "$business" "$event" "$lock" >"$scratch/insert"

# A relay listens all the time.
(echo 'listen outbox_wake_up_millrace;'; sleep 86400) | psql -X -q "$database" >/dev/null &
listening=$(jobs -p)

for connections in 1 16; do
  for _ in $(seq "$rounds"); do
    for way in $(shuf -e stock silent trigger insert always); do
      enable=disable always=disable
      [ "$way" != trigger ] || enable=enable
      [ "$way" != always ] || always=enable
      sql "alter table millrace.outbox $enable trigger outbox_wake_up; alter table millrace.outbox $always trigger wake_up_always"
      tps=$(pgbench -n -M extended -c "$connections" -j 1 -T "$seconds" -f "$scratch/$way" "$database" | sed -n 's/^tps = \([0-9]*\).*without.*/\1/p')
      echo "$way $tps" >>"$scratch/$connections"
    done
  done
  for way in stock silent trigger insert always; do
    sed -n "s/^$way //p" "$scratch/$connections" | sort -n | sed -n "$(((rounds + 1) / 2))p" | sed "s/^/$connections connections, $way: /; s/\$/ transactions\/s/"
  done
done
