#!/usr/bin/env bash
# Measures the layouts of record 0001, first alone and then beside a transaction that is held open all the time.
#
#   docs/decisions/0001-layouts/measure.sh DATABASE_URL [EVENTS [BATCH]]
#
# It needs psql and a database in which it may create the schema outbox_layouts, which it removes again.
set -euo pipefail
database=${1:?a database URL is needed}
events=${2:-100000}
batch=${3:-1000}
sql="$(dirname "${BASH_SOURCE[0]}")/measure.sql"

measure() { psql -X "$database" -v events="$events" -v batch="$batch" -v label="$1" -f "$sql"; }

psql -X -At "$database" -c "select 'PostgreSQL ' || current_setting('server_version') || ', ' || $events || ' events in batches of ' || $batch"
measure alone

# A forgotten session: it has a snapshot and does nothing.
coproc forgotten { psql -X -q -At "$database"; }
session=$forgotten_PID
echo 'begin isolation level repeatable read; select txid_current();' >&"${forgotten[1]}"
read -r _ <&"${forgotten[0]}"
measure "open transaction"
printf 'rollback;\n\\q\n' >&"${forgotten[1]}"
wait "$session"
