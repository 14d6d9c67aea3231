package main

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// options is what to compare.
type options struct {
	events, stockEvents int
	runs                int
	out                 string
	contenders          []string
	embedded            bool // Kafka
	timeout             time.Duration
}

func defaults() options {
	return options{
		events: 200_000, stockEvents: 20_000, runs: 3, out: "results.json", timeout: 2 * time.Hour,
		contenders: []string{nameMillrace, nameStock, nameStockTuned, nameDebezium, nameDebeziumTuned},
	}
}

func (o options) validate() error {
	var errs []error
	known := defaults().contenders
	for i, name := range o.contenders {
		if !slices.Contains(known, name) || slices.Contains(o.contenders[:i], name) {
			errs = append(errs, fmt.Errorf("contenders: %q is not one of %q, once", name, known))
		}
		if o.embedded && (name == nameDebezium || name == nameDebeziumTuned) {
			errs = append(errs, fmt.Errorf("contenders: %s needs a real Kafka", name))
		}
	}
	if o.events < 1 || o.events > 10_000_000 || o.stockEvents < 1 {
		errs = append(errs, errors.New("events, stock-events: between 1 and 10,000,000"))
	}
	if o.runs < 1 {
		errs = append(errs, errors.New("runs: at least 1"))
	}
	if o.timeout <= 0 {
		errs = append(errs, errors.New("timeout: not positive"))
	}
	return errors.Join(errs...)
}
