package config

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/event"
)

// The checks return what to do about a value, "" if it is good. None of them repeats the value: it may be a secret.

func notEmpty(value any) string {
	if value == "" {
		return "give a value"
	}
	return ""
}

func oneOf(allowed ...string) func(any) string {
	return func(value any) string {
		if slices.Contains(allowed, value.(string)) {
			return ""
		}
		names := slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return s == "" })
		return "use one of " + strings.Join(names, ", ")
	}
}

func positive(value any) string {
	if value.(int) >= 1 {
		return ""
	}
	return "use 1 or more"
}

func between(least, most int) func(any) string {
	return func(value any) string {
		if n := value.(int); n >= least && n <= most {
			return ""
		}
		return fmt.Sprintf("use a number between %d and %d", least, most)
	}
}

func wholeMilliseconds(least time.Duration) func(any) string {
	return func(value any) string {
		if d := value.(time.Duration); d < least || d%time.Millisecond != 0 {
			return fmt.Sprintf("use whole milliseconds, %s or more", least)
		}
		return ""
	}
}

var schemaPattern = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

func schemaName(value any) string {
	if schemaPattern.MatchString(value.(string)) {
		return ""
	}
	return "use lower-case letters, digits and underscores, at most 63"
}

func databaseURL(value any) string {
	text := value.(string)
	if text == "" {
		return ""
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme != "postgres" && parsed.Scheme != "postgresql" {
		return "use postgres://user@host:port/database"
	}
	return ""
}

func brokers(value any) string {
	for _, address := range value.([]string) {
		if !validAddress(address) {
			return "list host:port, separated by commas"
		}
	}
	return ""
}

func topics(value any) string {
	for _, topic := range value.([]string) {
		if event.ValidateTopic(topic) != nil {
			return "list names of topics, separated by commas"
		}
	}
	return ""
}

func validAddress(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// loopback holds the listener to this machine: it has neither encryption nor a login.
func loopback(value any) string {
	host, port, err := net.SplitHostPort(value.(string))
	if err != nil {
		return "use host:port"
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "use a port number; 0 is any free one"
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return ""
	}
	return "use a loopback address such as 127.0.0.1: there is no login; put a proxy with one in front"
}

func readable(value any) string {
	name := value.(string)
	if name == "" {
		return ""
	}
	file, err := os.Open(name) //nolint:gosec // the operator names it
	if err != nil {
		return "name a readable file"
	}
	if err := file.Close(); err != nil {
		return "name a readable file"
	}
	return ""
}

// together checks what concerns several keys.
func together(c Config) []Problem {
	var problems []Problem
	wrong := func(key, remedy string) { problems = append(problems, Problem{Key: key, Remedy: remedy}) }
	tls, sasl := c.Kafka.TLS, c.Kafka.SASL
	if (tls.CertFile == "") != (tls.KeyFile == "") {
		wrong("kafka.tls.cert_file", "give kafka.tls.cert_file and kafka.tls.key_file, or neither")
	}
	if !tls.Enabled && (tls.CAFile != "" || tls.CertFile != "" || tls.ServerName != "") {
		wrong("kafka.tls.enabled", "set it to true, or leave the other kafka.tls settings out")
	}
	if sasl.Mechanism == "" && (sasl.Username != "" || sasl.Password != "") {
		wrong("kafka.sasl.mechanism", "name the mechanism, or leave user name and password out")
	}
	if sasl.Mechanism != "" && sasl.Username == "" {
		wrong("kafka.sasl.username", "give the user name")
	}
	if sasl.Mechanism != "" && sasl.Password == "" {
		wrong("kafka.sasl.password", "give it in MILLRACE_KAFKA_SASL_PASSWORD, or name a file in MILLRACE_KAFKA_SASL_PASSWORD_FILE")
	}
	return problems
}
