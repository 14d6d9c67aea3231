package kafka

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Mechanisms of SASL. SASLPlain sends the password itself, so use it over TLS only.
const (
	SASLPlain       = "PLAIN"
	SASLScramSHA256 = "SCRAM-SHA-256"
	SASLScramSHA512 = "SCRAM-SHA-512"
)

// SASL is how to log in to the brokers. The zero value is no login. Printing it never shows the password.
type SASL struct {
	Mechanism string
	Username  string
	Password  string `json:"-"`
}

// String shows everything but the password.
func (s SASL) String() string {
	password := ""
	if s.Password != "" {
		password = "***"
	}
	return fmt.Sprintf("{Mechanism:%s Username:%s Password:%s}", s.Mechanism, s.Username, password)
}

// GoString is String: %#v shows no password either.
func (s SASL) GoString() string { return "kafka.SASL" + s.String() }

func (s SASL) validate() error {
	if s == (SASL{}) {
		return nil
	}
	var errs []error
	switch s.Mechanism {
	case SASLPlain, SASLScramSHA256, SASLScramSHA512:
	default:
		errs = append(errs, fmt.Errorf("SASL.Mechanism: %q is none of %s, %s and %s",
			s.Mechanism, SASLPlain, SASLScramSHA256, SASLScramSHA512))
	}
	if s.Username == "" {
		errs = append(errs, errors.New("SASL.Username: missing"))
	}
	if s.Password == "" {
		errs = append(errs, errors.New("SASL.Password: missing"))
	}
	return errors.Join(errs...)
}

func (s SASL) options() []kgo.Opt {
	login := scram.Auth{User: s.Username, Pass: s.Password}
	switch s.Mechanism {
	case SASLPlain:
		return []kgo.Opt{kgo.SASL(plain.Auth{User: s.Username, Pass: s.Password}.AsMechanism())}
	case SASLScramSHA256:
		return []kgo.Opt{kgo.SASL(login.AsSha256Mechanism())}
	case SASLScramSHA512:
		return []kgo.Opt{kgo.SASL(login.AsSha512Mechanism())}
	default:
		return nil
	}
}
