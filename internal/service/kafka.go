package service

import (
	"context"
	"fmt"
	"strings"
)

// Kafka is a running broker of this process. Its methods are safe for concurrent use.
type Kafka struct {
	config  KafkaConfig
	process *process
}

// StartKafka starts a broker and returns once a client can fetch its metadata. Topics are created on first use, with
// six partitions. ctx bounds the start alone; the broker runs until Stop or until this process ends. Only one broker
// at a time can use a state directory: a second start waits a few seconds for the first one to end and fails with
// ErrInUse.
func StartKafka(ctx context.Context, config KafkaConfig) (*Kafka, error) {
	config.setDefaults()
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("service: invalid KafkaConfig: %w", err)
	}
	kind := kindEmbeddedKafka
	if config.Real {
		kind = kindRealKafka
	}
	started, err := startProcess(ctx, spec{
		Kind:      kind,
		StateDir:  config.StateDir,
		Settings:  config.Settings,
		Temporary: config.Temporary,
	})
	if err != nil {
		return nil, fmt.Errorf("service: start Kafka: %w", err)
	}
	return &Kafka{config: config, process: started}, nil
}

// Brokers are the addresses to give a client.
func (k *Kafka) Brokers() []string { return strings.Split(k.process.ready.Address, ",") }

// Source says which broker was taken, for a person.
func (k *Kafka) Source() string { return k.process.ready.Source }

// PID is the process id of the broker itself, the one to kill in a test.
func (k *Kafka) PID() int { return k.process.ready.PID }

// Config is what the broker was started with, defaults included: pass it to StartKafka to start it again.
func (k *Kafka) Config() KafkaConfig { return k.config }

// Stop shuts the broker down and waits for it. It may be called again and then returns the same result. A broker that
// was killed before counts as stopped.
func (k *Kafka) Stop() error {
	if err := k.process.stop(); err != nil {
		return fmt.Errorf("service: stop Kafka: %w", err)
	}
	return nil
}
