// Package cli is the command line: one file a command, errors to exit codes in exit.go, addresses and services in
// services.go. Data goes to stdout, talk to stderr.
package cli
