package config

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Setting is the effective value of one key and where it came from. Secrets are not in it.
type Setting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Source string `json:"source"`
}

// redacted stands for a secret that is set.
const redacted = "***"

func shown(k key, value any) any {
	switch v := value.(type) {
	case time.Duration:
		return v.String()
	case []string:
		return append([]string{}, v...)
	case string:
		if k.name == "database_url" {
			return redactURL(v)
		}
		if k.secret && v != "" {
			return redacted
		}
	}
	return value
}

// redactURL keeps what says which database it is: no user information and no parameters, which may hold a password too.
func redactURL(text string) string {
	if text == "" {
		return ""
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" {
		return redacted
	}
	return fmt.Sprintf("%s://%s/%s", parsed.Scheme, parsed.Host, strings.TrimPrefix(parsed.Path, "/"))
}
