package config

import (
	"time"
)

// Config is the whole configuration of the command. Load makes it; every field is valid then, with its default filled in.
type Config struct {
	DatabaseURL string // "" = none given
	Schema      string
	Kafka       Kafka
	Relay       Relay
	Log         Log
	Listen      string // host:port of health and metrics
}

// Kafka is how to reach the brokers and how to send.
type Kafka struct {
	Brokers         []string // empty = none given
	ClientID        string
	TLS             TLS
	SASL            SASL
	Compression     string
	Partitioner     string
	MaxMessageBytes int
	CreateTopics    bool
}

// TLS encrypts the connections to the brokers. Empty file names mean the system's authorities and no client certificate.
type TLS struct {
	Enabled    bool
	CAFile     string
	CertFile   string
	KeyFile    string
	ServerName string
}

// SASL is the login at the brokers; an empty mechanism is none.
type SASL struct {
	Mechanism string
	Username  string
	Password  string
}

// Relay is how the outbox is read. See outbox.SubscriberConfig for what each costs.
type Relay struct {
	Name              string // "" = host name and process id
	Lease             time.Duration
	PollInterval      time.Duration
	WakeUp            bool // the database tells of new events; false behind a pooler in transaction mode
	BatchSize         int
	MaxInFlight       int
	MaxUnsettled      int
	MaxUnsettledBytes int
	MaxAttempts       int           // refusals until an event is quarantined
	MinHold           time.Duration // before a refused event is tried again
	MaxHold           time.Duration
	SkipTopics        []string // in which events pass a refused one of their key
	SweepInterval     time.Duration
	CloseTimeout      time.Duration
}

// Log is what is said on stderr.
type Log struct {
	Level  string // error, warn, info, debug or trace
	Format string // text or json
}
