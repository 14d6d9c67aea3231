package service

import (
	"errors"
	"fmt"
	"strings"
)

// KafkaConfig says which broker to start and where its data lives. The zero value starts the embedded one in
// DefaultStateDir.
type KafkaConfig struct {
	// StateDir holds the data, the logs and the ports, so that a later start on the same directory continues with the
	// same data on the same address. The embedded and the real broker keep theirs apart. Default: DefaultStateDir().
	StateDir string

	// Real starts Apache Kafka in a JVM (Java 17 or newer; its jars are fetched once through Maven) instead of the
	// embedded broker. The embedded one speaks the protocol but is a fake: no figure of throughput or durability may
	// come from it, and a topic that it created on first use is gone when it is killed before an orderly stop.
	Real bool

	// Settings are broker settings that go before the defaults of this package, "message.max.bytes" for instance. The
	// embedded broker knows a small part of Kafka's and ignores the others.
	Settings map[string]string

	// Temporary removes StateDir once the broker has stopped, also when the parent process was killed.
	Temporary bool
}

func (c *KafkaConfig) setDefaults() {
	if c.StateDir == "" {
		c.StateDir = DefaultStateDir()
	}
}

// Validate names every field that can not work.
func (c KafkaConfig) Validate() error {
	var errs []error
	for name, value := range c.Settings {
		if name == "" || strings.ContainsAny(name, "=\n") || strings.Contains(value, "\n") {
			errs = append(errs, fmt.Errorf("Settings: %q is not one property", name))
		}
	}
	return errors.Join(errs...)
}
