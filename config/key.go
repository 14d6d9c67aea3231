package config

import (
	"strings"
	"time"
)

// key describes one setting: where it goes in Config and what it may be.
type key struct {
	name    string // as in the file: "relay.poll_interval"
	initial any    // the default; its type is the setting's
	secret  bool   // never shown, never in the file, and also readable from the file that <name>_FILE names
	target  func(*Config) any
	check   func(value any) string // "" or what is wrong with the value
}

// environment is the variable of the key: "MILLRACE_RELAY_POLL_INTERVAL".
func (k key) environment() string {
	return Prefix + strings.ToUpper(strings.ReplaceAll(k.name, ".", "_"))
}

// Prefix is what the environment variables begin with.
const Prefix = "MILLRACE_"

// keys are all settings, in the order they are shown.
var keys = []key{
	{name: "database_url", initial: "", secret: true, target: func(c *Config) any { return &c.DatabaseURL }, check: databaseURL},
	{name: "schema", initial: "millrace", target: func(c *Config) any { return &c.Schema }, check: schemaName},

	{name: "kafka.brokers", initial: []string(nil), target: func(c *Config) any { return &c.Kafka.Brokers }, check: brokers},
	{name: "kafka.client_id", initial: "millrace", target: func(c *Config) any { return &c.Kafka.ClientID }, check: notEmpty},
	{name: "kafka.tls.enabled", initial: false, target: func(c *Config) any { return &c.Kafka.TLS.Enabled }},
	{name: "kafka.tls.ca_file", initial: "", target: func(c *Config) any { return &c.Kafka.TLS.CAFile }, check: readable},
	{name: "kafka.tls.cert_file", initial: "", target: func(c *Config) any { return &c.Kafka.TLS.CertFile }, check: readable},
	{name: "kafka.tls.key_file", initial: "", target: func(c *Config) any { return &c.Kafka.TLS.KeyFile }, check: readable},
	{name: "kafka.tls.server_name", initial: "", target: func(c *Config) any { return &c.Kafka.TLS.ServerName }},
	{name: "kafka.sasl.mechanism", initial: "", target: func(c *Config) any { return &c.Kafka.SASL.Mechanism }, check: oneOf("", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")},
	{name: "kafka.sasl.username", initial: "", target: func(c *Config) any { return &c.Kafka.SASL.Username }},
	{name: "kafka.sasl.password", initial: "", secret: true, target: func(c *Config) any { return &c.Kafka.SASL.Password }},
	{name: "kafka.compression", initial: "none", target: func(c *Config) any { return &c.Kafka.Compression }, check: oneOf("none", "gzip", "snappy", "lz4", "zstd")},
	{name: "kafka.partitioner", initial: "java", target: func(c *Config) any { return &c.Kafka.Partitioner }, check: oneOf("java", "sarama")},
	{name: "kafka.max_message_bytes", initial: 1_048_588, target: func(c *Config) any { return &c.Kafka.MaxMessageBytes }, check: between(1024, 1<<30)},
	{name: "kafka.create_topics", initial: false, target: func(c *Config) any { return &c.Kafka.CreateTopics }},

	{name: "relay.name", initial: "", target: func(c *Config) any { return &c.Relay.Name }},
	{name: "relay.lease", initial: 10 * time.Second, target: func(c *Config) any { return &c.Relay.Lease }, check: wholeMilliseconds(500 * time.Millisecond)},
	{name: "relay.poll_interval", initial: time.Second, target: func(c *Config) any { return &c.Relay.PollInterval }, check: wholeMilliseconds(time.Millisecond)},
	{name: "relay.wake_up", initial: true, target: func(c *Config) any { return &c.Relay.WakeUp }},
	{name: "relay.batch_size", initial: 2000, target: func(c *Config) any { return &c.Relay.BatchSize }, check: positive},
	{name: "relay.max_in_flight", initial: 4, target: func(c *Config) any { return &c.Relay.MaxInFlight }, check: positive},
	{name: "relay.max_unsettled", initial: 16_000, target: func(c *Config) any { return &c.Relay.MaxUnsettled }, check: positive},
	{name: "relay.max_unsettled_bytes", initial: 32 << 20, target: func(c *Config) any { return &c.Relay.MaxUnsettledBytes }, check: positive},
	{name: "relay.max_attempts", initial: 10, target: func(c *Config) any { return &c.Relay.MaxAttempts }, check: positive},
	{name: "relay.min_hold", initial: time.Second, target: func(c *Config) any { return &c.Relay.MinHold }, check: wholeMilliseconds(time.Millisecond)},
	{name: "relay.max_hold", initial: 5 * time.Minute, target: func(c *Config) any { return &c.Relay.MaxHold }, check: wholeMilliseconds(time.Millisecond)},
	{name: "relay.skip_topics", initial: []string(nil), target: func(c *Config) any { return &c.Relay.SkipTopics }, check: topics},
	{name: "relay.sweep_interval", initial: time.Minute, target: func(c *Config) any { return &c.Relay.SweepInterval }, check: wholeMilliseconds(time.Millisecond)},
	{name: "relay.close_timeout", initial: 30 * time.Second, target: func(c *Config) any { return &c.Relay.CloseTimeout }, check: wholeMilliseconds(time.Millisecond)},

	{name: "log.level", initial: "info", target: func(c *Config) any { return &c.Log.Level }, check: oneOf("error", "warn", "info", "debug", "trace")},
	{name: "log.format", initial: "text", target: func(c *Config) any { return &c.Log.Format }, check: oneOf("text", "json")},
	{name: "listen", initial: "127.0.0.1:8481", target: func(c *Config) any { return &c.Listen }, check: loopback},
}

func keyNamed(name string) (key, bool) {
	for _, k := range keys {
		if k.name == name {
			return k, true
		}
	}
	return key{}, false
}
