// Package prometheus tests the alert rules beside it with Prometheus' own rule engine. It is a module of its own so that
// nothing else depends on that.
package prometheus
