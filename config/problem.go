package config

import "strings"

// Problem is one thing that is wrong with the configuration. It never quotes a value.
type Problem struct {
	Key    string `json:"key"`
	Source string `json:"source"` // "file millrace.yaml", "environment MILLRACE_SCHEMA", "flag --schema", "default"
	Remedy string `json:"remedy"`
}

func (p Problem) String() string {
	if p.Source == "" {
		return p.Key + ": " + p.Remedy
	}
	return p.Key + " (" + p.Source + "): " + p.Remedy
}

// Problems is everything that is wrong, as an error.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, 0, len(p)+1)
	lines = append(lines, "invalid configuration:")
	for _, problem := range p {
		lines = append(lines, "  "+problem.String())
	}
	return strings.Join(lines, "\n")
}
