package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/millrace-go/millrace/cmd/app/internal/broker"
	"github.com/millrace-go/millrace/config"
	"github.com/millrace-go/millrace/kafka"
)

// connection is how the configuration says to reach the brokers.
func connection(c config.Kafka) (kafka.Connection, error) {
	result := kafka.Connection{
		Brokers: c.Brokers, ClientID: c.ClientID,
		SASL: kafka.SASL{Mechanism: c.SASL.Mechanism, Username: c.SASL.Username, Password: c.SASL.Password},
	}
	if !c.TLS.Enabled {
		return result, nil
	}
	result.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.TLS.ServerName}
	if c.TLS.CAFile != "" {
		pem, err := os.ReadFile(c.TLS.CAFile)
		if err != nil {
			return kafka.Connection{}, usage{fmt.Errorf("kafka.tls.ca_file: %w", err)}
		}
		result.TLS.RootCAs = x509.NewCertPool()
		if !result.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return kafka.Connection{}, usage{fmt.Errorf("kafka.tls.ca_file: no certificate in %s", c.TLS.CAFile)}
		}
	}
	if c.TLS.CertFile != "" {
		certificate, err := tls.LoadX509KeyPair(c.TLS.CertFile, c.TLS.KeyFile)
		if err != nil {
			return kafka.Connection{}, usage{fmt.Errorf("kafka.tls.cert_file: %w", err)}
		}
		result.TLS.Certificates = []tls.Certificate{certificate}
	}
	return result, nil
}

// reachBrokers sees that somebody answers.
func reachBrokers(ctx context.Context, c kafka.Connection) error {
	client, err := broker.NewClient(c)
	if err != nil {
		return err
	}
	defer client.Close()
	dial, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := client.Ping(dial); err != nil {
		return fmt.Errorf("Kafka is %w: %w", errUnreachable, err)
	}
	return nil
}
