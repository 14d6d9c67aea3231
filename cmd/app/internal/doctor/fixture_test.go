package doctor_test

import (
	"context"
	"database/sql"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/cmd/app/internal/doctor"
	"github.com/millrace-go/millrace/internal/testkit"
)

// patient is a system with three events, sent to one topic by one live relay that has all shards.
type patient struct {
	t        *testing.T
	db       *sql.DB
	dsn      string
	topic    string
	services doctor.Services
	config   doctor.Config
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	db, dsn := testkit.MigratedDatabase(t)
	return newPatientOn(t, db, dsn)
}

func newPatientOn(t *testing.T, db *sql.DB, dsn string) *patient {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(testkit.Kafka(t)...))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	p := &patient{
		t: t, db: db, dsn: dsn, topic: testkit.Topic(t, 2),
		services: doctor.Services{DB: db, Kafka: client}, config: doctor.Config{DirectURL: dsn},
	}
	for id := range 3 {
		p.execute("insert into millrace.outbox (event_id, topic, payload) values ($1, $2, 'secret payload')", string(rune('a'+id)), p.topic)
	}
	p.execute(`insert into millrace.outbox_receipt (shard, position, attempts, claim_version) select shard, position, 1, 1 from millrace.outbox`)
	p.execute(`insert into millrace.outbox_relay (relay_id, name, lease_ms, lease_until) values ('00000000-0000-0000-0000-000000000001', 'r1', 10000, millrace.clock() + interval '1 d')`)
	p.execute(`update millrace.outbox_shard set relay_id = '00000000-0000-0000-0000-000000000001', claim_id = gen_random_uuid(), claim_version = 1`)
	return p
}

func (p *patient) execute(statement string, args ...any) {
	p.t.Helper()
	_, err := p.db.Exec(statement, args...)
	require.NoError(p.t, err)
}

// reopen uses new connections, for settings of the database or role to take effect.
func (p *patient) reopen(change func(*url.URL)) {
	p.t.Helper()
	parsed, err := url.Parse(p.dsn)
	require.NoError(p.t, err)
	if change != nil {
		change(parsed)
	}
	query := parsed.Query()
	query.Set("binary_parameters", "yes")
	parsed.RawQuery = query.Encode()
	p.services.DB = testkit.Open(p.t, "postgres", parsed.String())
}

// set alters a setting of the database.
func (p *patient) set(setting, value string) {
	p.t.Helper()
	p.execute(`do $do$ begin execute format('alter database %I set ` + setting + ` = ` + strings.ReplaceAll(value, "'", "''") + `', current_database()); end $do$`)
	p.reopen(nil)
}

// alter changes a setting of the topic.
func (p *patient) alter(setting, value string) {
	p.t.Helper()
	admin := kadm.NewClient(p.services.Kafka)
	altered, err := admin.AlterTopicConfigs(context.Background(), []kadm.AlterConfig{{Name: setting, Value: &value}}, p.topic)
	require.NoError(p.t, err)
	for _, a := range altered {
		require.NoError(p.t, a.Err)
	}
}

// examine makes all checks and returns them by name.
func (p *patient) examine() map[string]doctor.Check {
	p.t.Helper()
	list, err := doctor.Examine(p.t.Context(), p.services, p.config)
	require.NoError(p.t, err)
	checks := map[string]doctor.Check{}
	for _, c := range list {
		require.NotContains(p.t, checks, c.Name, "one finding a name")
		require.NotEmpty(p.t, c.Detail, c.Name)
		require.NotContains(p.t, c.Detail, "\n", c.Name)
		for _, secret := range []string{"example-password", "secret payload", "postgres://"} {
			require.NotContains(p.t, c.Detail, secret, c.Name)
		}
		checks[c.Name] = c
	}
	return checks
}

// becomes sees that exactly these checks have another status than before.
func (p *patient) becomes(before map[string]doctor.Check, want map[string]doctor.Status) {
	p.t.Helper()
	require.Equal(p.t, want, p.changed(before))
}

func (p *patient) changed(before map[string]doctor.Check) map[string]doctor.Status {
	p.t.Helper()
	changed := map[string]doctor.Status{}
	for name, check := range p.examine() {
		if check.Status != before[name].Status {
			changed[name] = check.Status
		}
	}
	return changed
}
