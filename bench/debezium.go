package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lib/pq"
)

const (
	nameDebezium      = "debezium"
	nameDebeziumTuned = "debezium-tuned"

	// primeTimeout bounds the first start of a connector.
	primeTimeout = 2 * time.Minute
)

var (
	//go:embed debezium_log4j2.xml
	debeziumLog4j2 []byte

	//go:embed debezium_table.sql
	debeziumTable string
	//go:embed debezium_insert.sql
	debeziumInsert string
)

// debezium is Debezium's PostgreSQL connector with the outbox event router, in a standalone worker of Kafka Connect.
type debezium struct {
	jars  string
	tuned bool
}

// debeziumTuning is what is set beyond what is needed.
var debeziumTuning = map[string]string{
	"poll.interval.ms":             "10",
	"max.batch.size":               "16384",
	"max.queue.size":               "65536",
	"producer.override.linger.ms":  "5",
	"producer.override.batch.size": "262144",
}

func (d debezium) name() string {
	if d.tuned {
		return nameDebeziumTuned
	}
	return nameDebezium
}

func (d debezium) settings() string {
	words := "Debezium " + debeziumVersion + ", outbox event router, pgoutput, Kafka Connect standalone, acks=all"
	if !d.tuned {
		return words + ", default settings"
	}
	for _, name := range slices.Sorted(maps.Keys(debeziumTuning)) {
		words += ", " + name + "=" + debeziumTuning[name]
	}
	return words
}

func (debezium) events(o options) int { return o.events }

// fill lets a first connector make publication, slot and offsets and end, then fills the table: what is measured is a
// connector that goes on, not one that is set up.
func (d debezium) fill(ctx context.Context, t *turn) error {
	if _, err := t.db.ExecContext(ctx, debeziumTable); err != nil {
		return fmt.Errorf("make table: %w", err)
	}
	if err := d.configure(t); err != nil {
		return err
	}
	if err := d.prime(ctx, t); err != nil {
		return fmt.Errorf("prime: %w", err)
	}
	return batches(t.events, func(numbers []int) error { return d.write(ctx, t, numbers) })
}

// write commits one transaction of events, which is one statement.
func (debezium) write(ctx context.Context, t *turn, numbers []int) error {
	var ids, of, payloads []string
	for _, n := range numbers {
		ids, of, payloads = append(ids, eventID(n)), append(of, aggregate(n)), append(payloads, string(payload(n)))
	}
	_, err := t.db.ExecContext(ctx, debeziumInsert, pq.Array(ids), t.topic, pq.Array(of), eventType, pq.Array(payloads))
	return err
}

// prime runs a connector until an event of its own has come through and its offsets are stored.
func (d debezium) prime(ctx context.Context, t *turn) (err error) {
	ctx, cancel := context.WithTimeout(ctx, primeTimeout)
	defer cancel()
	topic := t.topic + ".prime"
	if err := createTopics(ctx, t.admin, topic); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, deleteTopics(context.WithoutCancel(ctx), t.admin, topic)) }()
	command, err := d.command(t)
	if err != nil {
		return err
	}
	p, err := start(command, filepath.Join(t.dir, "prime.log"))
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := p.stop(); stopErr != nil {
			err = stopErr // it says why the rest failed
		}
	}()
	err = p.await(ctx, func(ctx context.Context) (there bool, err error) {
		err = t.db.QueryRowContext(ctx,
			"select exists (select from pg_replication_slots where slot_name = $1 and active)", t.slot()).Scan(&there)
		return there, err
	})
	if err != nil {
		return fmt.Errorf("wait for the slot: %w", err)
	}
	_, err = t.db.ExecContext(ctx, "insert into outboxevent values (gen_random_uuid(), $1, 'prime', 'prime', '{}')", topic)
	if err != nil {
		return err
	}
	err = p.await(ctx, func(ctx context.Context) (bool, error) {
		_, records, err := ends(ctx, t.admin, topic)
		if err != nil || records == 0 {
			return false, err
		}
		info, err := os.Stat(filepath.Join(t.dir, "offsets"))
		return err == nil && info.Size() > 0, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the first event: %w", err)
	}
	return nil
}

// slot is the name of the replication slot and of the publication.
func (t *turn) slot() string { return strings.ReplaceAll(t.id, "-", "_") }

// configure writes the configuration of worker and connector.
func (d debezium) configure(t *turn) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	password, _ := t.database.User.Password()
	connector := map[string]string{
		"name":                        "outbox",
		"connector.class":             "io.debezium.connector.postgresql.PostgresConnector",
		"plugin.name":                 "pgoutput",
		"database.hostname":           t.database.Hostname(),
		"database.port":               t.database.Port(),
		"database.user":               t.database.User.Username(),
		"database.password":           password,
		"database.dbname":             strings.TrimPrefix(t.database.Path, "/"),
		"topic.prefix":                "bench",
		"slot.name":                   t.slot(),
		"publication.name":            t.slot(),
		"publication.autocreate.mode": "filtered",
		"snapshot.mode":               "no_data",
		"table.include.list":          "public.outboxevent",
		"tombstones.on.delete":        "false",
		"transforms":                  "outbox",
		"transforms.outbox.type":      "io.debezium.transforms.outbox.EventRouter",
		"transforms.outbox.route.topic.replacement": "${routedByValue}",
	}
	if d.tuned {
		maps.Copy(connector, debeziumTuning)
	}
	worker := map[string]string{
		"bootstrap.servers":            strings.Join(t.brokers, ","),
		"key.converter":                "org.apache.kafka.connect.storage.StringConverter",
		"value.converter":              "org.apache.kafka.connect.storage.StringConverter",
		"offset.storage.file.filename": filepath.Join(t.dir, "offsets"),
		"offset.flush.interval.ms":     "5000",
		"listeners":                    fmt.Sprintf("http://127.0.0.1:%d", port),
		"plugin.discovery":             "service_load",
	}
	return errors.Join(
		os.WriteFile(filepath.Join(t.dir, "worker.properties"), properties(worker), 0o600),
		os.WriteFile(filepath.Join(t.dir, "connector.properties"), properties(connector), 0o600),
		os.WriteFile(filepath.Join(t.dir, "log4j2.xml"), debeziumLog4j2, 0o600),
	)
}

func properties(all map[string]string) []byte {
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&lines, "%s=%s\n", name, strings.ReplaceAll(all[name], `\`, `\\`))
	}
	return []byte(lines.String())
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed at once
	if err != nil {
		return 0, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return port, listener.Close()
}

func (d debezium) command(t *turn) (*exec.Cmd, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, fmt.Errorf("Debezium needs Java 17 or newer on PATH, or leave it out with --contenders: %w", err)
	}
	return exec.Command(java, "-Xms256m", "-Xmx1g", "-XX:+UseG1GC", //nolint:gosec,noctx // stop ends it, in its own time
		"-Dlog4j2.configurationFile="+filepath.Join(t.dir, "log4j2.xml"),
		"-cp", filepath.Join(d.jars, "*"), "org.apache.kafka.connect.cli.ConnectStandalone",
		filepath.Join(t.dir, "worker.properties"), filepath.Join(t.dir, "connector.properties")), nil
}

// clean removes the slot, which would keep the server's log for ever.
func (debezium) clean(ctx context.Context, t *turn) error {
	_, err := t.db.ExecContext(ctx,
		"select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = $1", t.slot())
	if err != nil {
		return fmt.Errorf("drop the replication slot: %w", err)
	}
	return nil
}
