package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/config"
)

// environment is an environment of its own, so that a test does not see the one it runs in.
func environment(variables ...string) []string {
	return append([]string{"HOME=/nowhere"}, variables...)
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func setting(t *testing.T, settings []config.Setting, key string) config.Setting {
	t.Helper()
	for _, s := range settings {
		if s.Key == key {
			return s
		}
	}
	require.Fail(t, "no such setting", key)
	return config.Setting{}
}

func TestNothingGivenIsTheDefaults(t *testing.T) {
	c, settings, err := config.Load(config.Sources{Environment: environment()})
	require.NoError(t, err)
	require.Equal(t, "millrace", c.Schema)
	require.Equal(t, 10*time.Second, c.Relay.Lease)
	require.True(t, c.Relay.WakeUp)
	require.Equal(t, "127.0.0.1:8481", c.Listen)
	require.Empty(t, c.DatabaseURL)
	require.Empty(t, c.Kafka.Brokers)
	for _, s := range settings {
		require.Equal(t, "default", s.Source, s.Key)
	}
}

func TestTheNearestSourceWins(t *testing.T) {
	file := write(t, "c.yaml", "schema: from_file\nrelay:\n  lease: 3s\n  batch_size: 7\nkafka:\n  brokers: [a:1, b:2]\nlog:\n")
	c, settings, err := config.Load(config.Sources{
		File:        file,
		Environment: environment("MILLRACE_RELAY_LEASE=4s", "MILLRACE_RELAY_BATCH_SIZE=8", "MILLRACE_RELAY_WAKE_UP=false", "MILLRACE_KAFKA_BROKERS=c:3, d:4"),
		Flags:       map[string]string{"relay.batch_size": "9"}, FlagNames: map[string]string{"relay.batch_size": "batch-size"},
	})
	require.NoError(t, err)
	require.Equal(t, "from_file", c.Schema)
	require.Equal(t, 4*time.Second, c.Relay.Lease)
	require.False(t, c.Relay.WakeUp)
	require.Equal(t, 9, c.Relay.BatchSize)
	require.Equal(t, []string{"c:3", "d:4"}, c.Kafka.Brokers)
	require.Equal(t, "file "+file, setting(t, settings, "schema").Source)
	require.Equal(t, "environment MILLRACE_RELAY_LEASE", setting(t, settings, "relay.lease").Source)
	require.Equal(t, "flag --batch-size", setting(t, settings, "relay.batch_size").Source)
	require.Equal(t, "4s", setting(t, settings, "relay.lease").Value)
}

func TestEverythingThatIsWrongIsReportedAtOnce(t *testing.T) {
	file := write(t, "c.yaml", "shema: x\nrelay:\n  lease: 5\n  poll_intervall: 1s\nkafka:\n  brokers: 7\n  sasl:\n    password: s3cret\n")
	_, _, err := config.Load(config.Sources{
		File:        file,
		Environment: environment("MILLRACE_LOG_LEVEL=loud", "MILLRACE_KAFKA_PARTITONER=java", "MILLRACE_DATABASE_URL=mysql://u:s3cret@h/d"),
		Flags:       map[string]string{"listen": "0.0.0.0:80"}, FlagNames: map[string]string{"listen": "listen"},
	})
	var problems config.Problems
	require.ErrorAs(t, err, &problems)
	found := map[string]string{}
	for _, p := range problems {
		require.NotEmpty(t, p.Remedy)
		found[p.Key] = p.Source
	}
	require.Equal(t, map[string]string{
		"shema":                "file " + file,
		"relay.poll_intervall": "file " + file,
		"relay.lease":          "file " + file,
		"kafka.brokers":        "file " + file,
		"kafka.sasl.password":  "file " + file,
		"log.level":            "environment MILLRACE_LOG_LEVEL",
		"kafka_partitoner":     "environment MILLRACE_KAFKA_PARTITONER",
		"database_url":         "environment MILLRACE_DATABASE_URL",
		"listen":               "flag --listen",
	}, found)
	require.Contains(t, err.Error(), "schema is meant?")
	require.Contains(t, err.Error(), "relay.poll_interval is meant?")
	require.NotContains(t, err.Error(), "s3cret")
}

func TestNoSecretIsShown(t *testing.T) {
	secret := write(t, "password", "s3cret\n")
	c, settings, err := config.Load(config.Sources{Environment: environment(
		"MILLRACE_DATABASE_URL=postgres://u:s3cret@db:5432/shop?sslpassword=s3cret",
		"MILLRACE_KAFKA_SASL_MECHANISM=PLAIN", "MILLRACE_KAFKA_SASL_USERNAME=u", "MILLRACE_KAFKA_SASL_PASSWORD_FILE="+secret,
	)})
	require.NoError(t, err)
	require.Equal(t, "s3cret", c.Kafka.SASL.Password)
	require.NotContains(t, fmt.Sprint(settings), "s3cret")
	require.Equal(t, "postgres://db:5432/shop", setting(t, settings, "database_url").Value)
	require.Equal(t, "file named by MILLRACE_KAFKA_SASL_PASSWORD_FILE", setting(t, settings, "kafka.sasl.password").Source)
}

func TestAFileMayNameADatabaseButNotItsPassword(t *testing.T) {
	c, _, err := config.Load(config.Sources{File: write(t, "c.yaml", "database_url: postgres://u@db/shop\n"), Environment: environment()})
	require.NoError(t, err)
	require.Equal(t, "postgres://u@db/shop", c.DatabaseURL)
	for _, url := range []string{"postgres://u:p@db/shop", "postgres://db/shop?password=p"} {
		_, _, err = config.Load(config.Sources{File: write(t, "c.yaml", "database_url: "+url+"\n"), Environment: environment()})
		require.ErrorContains(t, err, "MILLRACE_DATABASE_URL_FILE", url)
	}
}

func TestASecretGivenTwiceIsNotGuessedAt(t *testing.T) {
	_, _, err := config.Load(config.Sources{Environment: environment(
		"MILLRACE_DATABASE_URL=postgres://db/a", "MILLRACE_DATABASE_URL_FILE="+write(t, "url", "postgres://db/b"))})
	require.ErrorContains(t, err, "not both")
}

// Kubernetes puts variables of this prefix into every container beside a service named millrace.
func TestVariablesOfKubernetesAreNoSettings(t *testing.T) {
	_, _, err := config.Load(config.Sources{Environment: environment(
		"MILLRACE_SERVICE_HOST=10.0.0.1", "MILLRACE_SERVICE_PORT=80", "MILLRACE_SERVICE_PORT_HTTP=80", "MILLRACE_PORT=tcp://10.0.0.1:80",
		"MILLRACE_PORT_80_TCP=tcp://10.0.0.1:80", "MILLRACE_PORT_80_TCP_ADDR=10.0.0.1", "MILLRACE_RELAY_SERVICE_HOST=10.0.0.2",
		"MILLRACE_CONFIG=/etc/millrace.yaml", "MILLRACE_TEST_KAFKA=real")})
	require.NoError(t, err)
}

func TestSettingsThatNeedEachOther(t *testing.T) {
	for _, variables := range [][]string{
		{"MILLRACE_KAFKA_SASL_MECHANISM=PLAIN"},
		{"MILLRACE_KAFKA_SASL_USERNAME=u"},
		{"MILLRACE_KAFKA_TLS_SERVER_NAME=broker"},
		{"MILLRACE_KAFKA_TLS_ENABLED=true", "MILLRACE_KAFKA_TLS_CERT_FILE=/dev/null"},
	} {
		_, _, err := config.Load(config.Sources{Environment: environment(variables...)})
		require.Error(t, err, variables)
	}
}

func TestAFileThatCanNotBeReadIsAProblem(t *testing.T) {
	for _, file := range []string{filepath.Join(t.TempDir(), "none.yaml"), write(t, "bad.yaml", "a: [b\n"), write(t, "twice.yaml", "schema: a\nschema: b\n")} {
		_, _, err := config.Load(config.Sources{File: file, Environment: environment()})
		var problems config.Problems
		require.ErrorAs(t, err, &problems, file)
		require.Equal(t, "config", problems[0].Key)
	}
}

// The parser quotes what it does not understand.
func TestAFileThatIsNoYAMLIsNotQuoted(t *testing.T) {
	for content, line := range map[string]string{
		"schema: a\nkafka:\n  sasl:\n    password: *s3cret\n": "",
		"schema: a\nkafka:\n  sasl: {s3cret: !!int s3cret}\n": "",
		"schema: a\nkafka: s3cret: b\n":                       "line 2",
		"s3cret: a\ns3cret: b\n":                              "line 2",
	} {
		_, _, err := config.Load(config.Sources{File: write(t, "bad.yaml", content), Environment: environment()})
		require.ErrorContains(t, err, "write valid YAML", content)
		require.ErrorContains(t, err, line, content)
		require.NotContains(t, err.Error(), "s3cret", content)
	}
}

func TestMessagesAreNoLargerThanAPublisherTakes(t *testing.T) {
	for size, valid := range map[string]bool{"1023": false, "1024": true, "1073741824": true, "1073741825": false} {
		_, _, err := config.Load(config.Sources{Environment: environment("MILLRACE_KAFKA_MAX_MESSAGE_BYTES=" + size)})
		require.Equal(t, valid, err == nil, size)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("schema: a\n", "MILLRACE_RELAY_LEASE=1s")
	f.Add("kafka: {brokers: [1, {a: b}]}\n", "MILLRACE_DATABASE_URL=postgres://%zz")
	f.Add("? [a, b]\n: c\n1: 2\n", "MILLRACE_=")
	f.Fuzz(func(t *testing.T, file, variable string) {
		_, settings, err := config.Load(config.Sources{File: write(t, "c.yaml", file), Environment: []string{variable}})
		require.NotEmpty(t, settings)
		if err != nil {
			var problems config.Problems
			require.ErrorAs(t, err, &problems)
		}
	})
}
