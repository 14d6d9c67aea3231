package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Connection is how to reach the brokers.
type Connection struct {
	// Brokers are some of the cluster's addresses, each host:port; the others are learned from them. Required.
	Brokers []string

	// ClientID names this process in the brokers' logs and quotas. Default: "millrace".
	ClientID string

	// TLS encrypts the connections. Default: nil, no encryption.
	TLS *tls.Config

	// SASL logs in to the brokers. Default: no login.
	SASL SASL
}

func (c *Connection) setDefaults() {
	if c.ClientID == "" {
		c.ClientID = "millrace"
	}
}

// Validate names every field that can not work.
func (c Connection) Validate() error {
	var errs []error
	if len(c.Brokers) == 0 {
		errs = append(errs, errors.New("Brokers: missing"))
	}
	for _, broker := range c.Brokers {
		host, port, err := net.SplitHostPort(broker)
		if err != nil || host == "" || port == "" {
			errs = append(errs, fmt.Errorf("Brokers: %q is not host:port", broker))
		}
	}
	return errors.Join(append(errs, c.SASL.validate())...)
}

func (c Connection) options(logger watermill.LoggerAdapter) []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(c.ClientID),
		kgo.WithLogger(clientLogger{logger}),
		kgo.DisableClientMetrics(),
	}
	if c.TLS != nil {
		options = append(options, kgo.DialTLSConfig(c.TLS))
	}
	return append(options, c.SASL.options()...)
}
