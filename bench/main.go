package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Exit codes, the same as those of the product.
const (
	codeError       = 1
	codeUsage       = 2
	codeTrouble     = 3 // events were lost or out of order
	codeInterrupted = 130
)

func main() {
	if settings, is := os.LookupEnv(stockMarker); is {
		os.Exit(runStock(settings))
	}
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return codeUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	bounded, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	results, err := compare(bounded, o, func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		if ctx.Err() != nil {
			return codeInterrupted
		}
		return codeError
	}
	results.show(os.Stdout)
	if o.out != "" {
		content, err := json.MarshalIndent(results, "", "  ")
		if err == nil {
			err = os.WriteFile(o.out, append(content, '\n'), 0o644) //nolint:gosec // figures for everybody
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return codeError
		}
		fmt.Fprintf(os.Stderr, "Written to %s\n", o.out)
	}
	if results.trouble() {
		fmt.Fprintln(os.Stderr, "Events were lost or out of order.")
		return codeTrouble
	}
	return 0
}

func parse(args []string) (options, error) {
	o := defaults()
	names := strings.Join(o.contenders, ",")
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.events, "events", o.events, "events of each contender")
	flags.IntVar(&o.stockEvents, "stock-events", o.stockEvents, "at most so many for Watermill's forwarder, which is slow")
	flags.IntVar(&o.runs, "runs", o.runs, "how often the contenders take turns, at least 3 for medians that mean something")
	flags.StringVar(&o.out, "out", o.out, "file for the results as JSON, \"\" = none")
	flags.StringVar(&names, "contenders", names, "which of them, with commas between")
	flags.BoolVar(&o.embedded, "embedded-kafka", false, "use the embedded Kafka, whose figures mean nothing: to try the program out")
	flags.DurationVar(&o.timeout, "timeout", o.timeout, "give up after")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected %q", flags.Args())
	}
	o.contenders = strings.Split(names, ",")
	return o, o.validate()
}
