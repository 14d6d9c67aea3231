package doctor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/cmd/app/internal/doctor"
	"github.com/millrace-go/millrace/internal/testkit"
)

// Each trouble is told by the check that is for it, and by no other.
func TestEachTroubleIsToldByItsOwnCheck(t *testing.T) {
	type statuses = map[string]doctor.Status
	const relay = "00000000-0000-0000-0000-000000000001"
	for trouble, c := range map[string]struct {
		provoke func(p *patient)
		want    func(p *patient) statuses
		detail  string // of one of them
	}{
		"sequence was reset": {
			func(p *patient) { p.execute("alter sequence millrace.outbox_position_seq restart") },
			only("schema.sequence", doctor.Failed), "setval('millrace.outbox_position_seq', 3)",
		},
		"sequence hands out in advance": {
			func(p *patient) { p.execute("alter sequence millrace.outbox_position_seq cache 10") },
			only("schema.sequence_cache", doctor.Failed), "cache 1",
		},
		"migrated by a newer program": {
			func(p *patient) {
				p.execute("insert into millrace.schema_version (version_id, is_applied) values (999, true)")
			},
			only("schema.version", doctor.Failed), "999 is newer",
		},
		"migration is pending": {
			func(p *patient) { p.execute("delete from millrace.schema_version where version_id = 4") },
			only("schema.version", doctor.Failed), "migrate up",
		},
		"shard row is missing": {
			func(p *patient) { p.execute("delete from millrace.outbox_shard where shard = 7") },
			only("schema.shards", doctor.Failed), "rows: 63",
		},
		"clock was replaced": {
			func(p *patient) {
				p.execute("create or replace function millrace.clock() returns timestamptz language sql as $$ select clock_timestamp() + interval '1 h' $$")
			},
			only("clock.database", doctor.Warning), "1h0m0s",
		},
		"commit is not waited for": {
			func(p *patient) { p.set("synchronous_commit", "off") }, only("postgres.synchronous_commit", doctor.Warning), "on for this role",
		},
		"isolation is stricter": {
			func(p *patient) { p.set("default_transaction_isolation", "serializable") }, only("postgres.isolation", doctor.Warning), "serializable",
		},
		"statements are cut short": {
			func(p *patient) { p.set("statement_timeout", "'2s'") }, only("postgres.statement_timeout", doctor.Warning), "2s",
		},
		"locks are not waited for": {
			func(p *patient) { p.set("lock_timeout", "'100ms'") }, only("postgres.lock_timeout", doctor.Warning), "100ms",
		},
		"hung writers are ended": {
			func(p *patient) { p.set("idle_in_transaction_session_timeout", "'1min'") }, only("postgres.idle_in_transaction", doctor.OK), "1m0s",
		},
		"nobody tells of new events": {
			func(p *patient) { p.execute("alter table millrace.outbox disable trigger outbox_wake_up") },
			only("wake_up.trigger", doctor.Warning), "enable trigger",
		},
		"listening leads elsewhere": {
			func(p *patient) {
				p.config.DirectURL, p.config.ListenElsewhere, p.config.Timeout = testkit.DSN(p.t), true, time.Second
			},
			only("wake_up.listen", doctor.Warning), "MILLRACE_RELAY_WAKE_UP=false",
		},
		"transaction stays open": {
			func(p *patient) {
				p.config.LongTransaction = time.Millisecond
				tx, err := testkit.Open(p.t, "postgres", p.dsn+"&application_name=nightly").Begin()
				require.NoError(p.t, err)
				p.t.Cleanup(func() { _ = tx.Rollback() })
				_, err = tx.Exec("select pg_current_xact_id()")
				require.NoError(p.t, err)
				require.Eventually(p.t, func() bool {
					var old bool
					return p.db.QueryRow(`select clock_timestamp() - xact_start > interval '2 ms' from pg_stat_activity
						where application_name = 'nightly' and state = 'idle in transaction'`).Scan(&old) == nil && old
				}, time.Minute, 5*time.Millisecond)
			},
			only("horizon.transactions", doctor.Warning), "nightly",
		},
		"autovacuum is disabled for a table": {
			func(p *patient) { p.execute("alter table millrace.outbox_receipt set (autovacuum_enabled = false)") },
			only("tables.autovacuum", doctor.Warning), "outbox_receipt",
		},
		"rows of the outbox were updated": {
			func(p *patient) {
				db := testkit.Open(p.t, "postgres", p.dsn)
				_, err := db.Exec("update millrace.outbox set payload = 'forged'")
				require.NoError(p.t, err)
				require.NoError(p.t, db.Close()) // which is when the server counts
				require.Eventually(p.t, func() bool {
					var updated int
					return p.db.QueryRow("select n_tup_upd from pg_stat_user_tables where relname = 'outbox'").Scan(&updated) == nil && updated == 3
				}, time.Minute, 10*time.Millisecond)
			},
			only("tables.updated", doctor.Warning), "outbox 3",
		},
		"small table is bloated": {
			func(p *patient) {
				p.execute("do $$ begin for i in 1 .. 1200 loop update millrace.outbox_shard set takeovers = 0; end loop; end $$")
			},
			only("tables.bloat", doctor.Warning), "outbox_shard",
		},
		"event is quarantined": {
			func(p *patient) {
				p.execute("delete from millrace.outbox_receipt where position = 2")
				p.execute(`insert into millrace.outbox_parked (shard, position, event_id, topic, state, blocks)
					select shard, position, event_id, topic, 'quarantined', false from millrace.outbox where position = 2`)
			},
			only("outbox.quarantined", doctor.Warning), "outbox retry",
		},
		"event is refused again and again": {
			func(p *patient) {
				p.execute("delete from millrace.outbox_receipt where position = 2")
				p.execute(`insert into millrace.outbox_parked (shard, position, event_id, topic, state, blocks, due_at)
					select shard, position, event_id, topic, 'retrying', false, millrace.clock() from millrace.outbox where position = 2`)
			},
			only("outbox.retrying", doctor.Warning), "state retrying",
		},
		"topic is held": {
			func(p *patient) {
				p.execute(`insert into millrace.outbox_lane (shard, topic, frontier_snapshot, frontier_position, held, reason) values (3, $1, '1:1:', 0, true, 'unavailable')`, p.topic)
			},
			only("outbox.held", doctor.Warning), "unavailable in 1 shards",
		},
		"topic is paused": {
			func(p *patient) {
				p.execute("insert into millrace.outbox_pause (topic, reason, actor) values ($1, 'why', 'ann')", p.topic)
			},
			only("outbox.paused", doctor.Warning), "ann",
		},
		"relay is gone": {
			func(p *patient) {
				p.execute("update millrace.outbox_relay set lease_until = millrace.clock() - interval '1 h' where relay_id = $1", relay)
			},
			func(*patient) statuses {
				return statuses{"outbox.relays": doctor.Warning, "outbox.leases": doctor.Warning, "outbox.shards": doctor.Warning}
			}, "ended 1h0m0s ago",
		},
		"shard is nobody's": {
			func(p *patient) {
				p.execute("update millrace.outbox_shard set relay_id = null, claim_id = null where shard = 5")
			},
			only("outbox.shards", doctor.Warning), "1 of 64",
		},
		"event is suspected": {
			func(p *patient) {
				p.execute("update millrace.outbox_shard s set suspect = o.position from millrace.outbox o where o.shard = s.shard and o.event_id = 'b'")
			},
			only("outbox.suspects", doctor.Warning), "such as b",
		},
		"event was overlooked": {
			func(p *patient) {
				p.execute("delete from millrace.outbox_receipt where position = 2")
				p.execute("update millrace.outbox_shard set frontier_snapshot = pg_current_snapshot(), frontier_position = 3")
			},
			only("outbox.overlooked", doctor.Warning), "1 below the frontier",
		},
		"topic is missing": {
			func(p *patient) { p.config.Topics = []string{"absent.topic"} },
			func(*patient) statuses {
				return statuses{
					"topic.exists:absent.topic": doctor.Failed, "topic.replication:absent.topic": doctor.Skipped,
					"topic.min_insync_replicas:absent.topic": doctor.Skipped, "topic.max_message_bytes:absent.topic": doctor.Skipped,
					"topic.cleanup_policy:absent.topic": doctor.Skipped, "topic.timestamp_type:absent.topic": doctor.Skipped,
				}
			}, "create it",
		},
		"topic takes less than is sent": {
			func(p *patient) { p.alter("max.message.bytes", "1000") }, ofTopic("topic.max_message_bytes", doctor.Failed), "takes 1000",
		},
		"topic is compacted": {
			func(p *patient) { p.alter("cleanup.policy", "compact") }, ofTopic("topic.cleanup_policy", doctor.Warning), "tombstone",
		},
		"topic wants more replicas than it has": {
			func(p *patient) { p.alter("min.insync.replicas", "2") }, ofTopic("topic.min_insync_replicas", doctor.Failed), "refused",
		},
	} {
		t.Run(trouble, func(t *testing.T) {
			p := newPatient(t)
			before := p.examine()
			c.provoke(p)
			want := c.want(p)
			p.becomes(before, want)
			details := ""
			for name, check := range p.examine() {
				if _, is := want[name]; is {
					details += check.Detail + "\n"
				}
			}
			require.Contains(t, details, c.detail)
		})
	}
}

func only(name string, status doctor.Status) func(*patient) map[string]doctor.Status {
	return func(*patient) map[string]doctor.Status { return map[string]doctor.Status{name: status} }
}

func ofTopic(name string, status doctor.Status) func(*patient) map[string]doctor.Status {
	return func(p *patient) map[string]doctor.Status {
		return map[string]doctor.Status{name + ":" + p.topic: status}
	}
}
