package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// parse brings a value to the type of the default, or says how to write it.
func parse(value, initial any) (any, string) {
	switch initial.(type) {
	case string:
		switch v := value.(type) {
		case string:
			return v, ""
		case nil:
			return "", ""
		}
		return nil, "write a text, in quotes if it looks like a number"
	case bool:
		if v, ok := value.(bool); ok {
			return v, ""
		}
		if v, err := strconv.ParseBool(fmt.Sprint(value)); err == nil {
			return v, ""
		}
		return nil, "write true or false"
	case int:
		if v, err := strconv.Atoi(fmt.Sprint(value)); err == nil {
			return v, ""
		}
		return nil, "write a whole number"
	case time.Duration:
		if v, ok := value.(time.Duration); ok {
			return v, ""
		}
		if text, ok := value.(string); ok {
			if v, err := time.ParseDuration(text); err == nil {
				return v, ""
			}
		}
		return nil, `write a duration with its unit, such as "500ms" or "10s"`
	default:
		return list(value)
	}
}

func list(value any) (any, string) {
	switch v := value.(type) {
	case nil:
		return []string(nil), ""
	case []string:
		return v, ""
	case string:
		var items []string
		for item := range strings.SplitSeq(v, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
		return items, ""
	case []any:
		items := make([]string, 0, len(v))
		for _, item := range v {
			text, ok := item.(string)
			if !ok {
				return nil, "list texts"
			}
			items = append(items, text)
		}
		return items, ""
	default:
		return nil, "write a list"
	}
}
