package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// figures are what one run of a contender showed.
type figures struct {
	Run             int     `json:"run"`
	Seconds         float64 `json:"seconds"` // from the first append to the last, by the broker's clock
	EventsPerSecond float64 `json:"events_per_second"`
	LimitPerSecond  float64 `json:"limit_per_second"`       // of the plain producer in the same turn
	CPUPerEvent     float64 `json:"relay_cpu_us_per_event"` // of the process's whole life, its start included
	RSSMiB          float64 `json:"rss_mb"`                 // at its largest
	Lost            int     `json:"lost"`
	Duplicated      int     `json:"duplicated"`
	Reordered       int     `json:"reordered"`
}

// result is a contender's medians. The ratio to the limit is the median of those within a turn.
type result struct {
	Contender       string    `json:"contender"`
	Settings        string    `json:"settings"`
	Events          int       `json:"events"`
	EventsPerSecond float64   `json:"events_per_second"`
	LimitRatio      float64   `json:"limit_ratio"`
	MillraceRatio   float64   `json:"millrace_ratio"` // how many times as fast the product is; 0 if it took no part
	CPUPerEvent     float64   `json:"relay_cpu_us_per_event"`
	RSSMiB          float64   `json:"rss_mb"`
	Lost            int       `json:"lost"`
	Duplicated      int       `json:"duplicated"`
	Reordered       int       `json:"reordered"`
	Runs            []figures `json:"runs"`
}

// results is the whole comparison.
type results struct {
	Postgres   string   `json:"postgres"`
	Kafka      string   `json:"kafka"`
	Payload    int      `json:"payload_bytes"`
	Aggregates int      `json:"aggregates"`
	Partitions int      `json:"partitions"`
	Runs       int      `json:"runs"`
	Limits     []limit  `json:"limits"`
	Limit      float64  `json:"limit_per_second"`
	Results    []result `json:"results"`
}

// limit is what the plain producer reached in a turn.
type limit struct {
	Run             int     `json:"run"`
	EventsPerSecond float64 `json:"events_per_second"`
}

// newResult sums up a contender's runs.
func newResult(name, settings string, events int, runs []figures) result {
	r := result{
		Contender: name, Settings: settings, Events: events, Runs: runs,
		EventsPerSecond: median(each(runs, func(f figures) float64 { return f.EventsPerSecond })),
		LimitRatio:      median(each(runs, func(f figures) float64 { return ratio(f.EventsPerSecond, f.LimitPerSecond) })),
		CPUPerEvent:     median(each(runs, func(f figures) float64 { return f.CPUPerEvent })),
	}
	for _, f := range runs {
		r.RSSMiB = max(r.RSSMiB, f.RSSMiB)
		r.Lost += f.Lost
		r.Duplicated += f.Duplicated
		r.Reordered += f.Reordered
	}
	return r
}

// relate compares everybody with the product, turn by turn.
func (r *results) relate() {
	r.Limit = 0
	var limits []float64
	for _, l := range r.Limits {
		limits = append(limits, l.EventsPerSecond)
	}
	r.Limit = median(limits)
	own := slices.IndexFunc(r.Results, func(one result) bool { return one.Contender == nameMillrace })
	if own < 0 {
		return
	}
	for i := range r.Results {
		var all []float64
		for run, f := range r.Results[i].Runs {
			all = append(all, ratio(r.Results[own].Runs[run].EventsPerSecond, f.EventsPerSecond))
		}
		r.Results[i].MillraceRatio = median(all)
	}
}

// trouble says whether any contender lost events or their order.
func (r results) trouble() bool {
	return slices.ContainsFunc(r.Results, func(one result) bool { return one.Lost > 0 || one.Reordered > 0 })
}

// show draws the table.
func (r results) show(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...any) {
		for _, c := range cells {
			_, _ = fmt.Fprintf(t, "%v\t", c)
		}
		_, _ = fmt.Fprintln(t)
	}
	row("contender", "events", "events/s", "of the limit", "millrace is", "CPU µs/event", "MiB", "lost", "duplicated", "out of order")
	row("plain producer", "", math.Round(r.Limit), "1", "", "", "", "", "", "")
	for _, one := range r.Results {
		times := "-"
		if one.MillraceRatio > 0 {
			times = fmt.Sprintf("%.1f x", one.MillraceRatio)
		}
		row(one.Contender, one.Events, math.Round(one.EventsPerSecond), fmt.Sprintf("%.4f", one.LimitRatio), times,
			fmt.Sprintf("%.0f", one.CPUPerEvent), fmt.Sprintf("%.0f", one.RSSMiB), one.Lost, one.Duplicated, one.Reordered)
	}
	_ = t.Flush()
	_, _ = fmt.Fprintf(w, `
%d runs in turns: medians, the largest memory, the sum of what went wrong. %d bytes of JSON, %d aggregates, %d partitions.
Rates are from the first append to the last by the broker's clock; CPU is of the relay's process, its start included.
Where the counts of events differ, the ratios are those of the rates. Compare ratios: machines vary from moment to moment.
%s; %s
`, r.Runs, r.Payload, r.Aggregates, r.Partitions, r.Postgres, r.Kafka)
	for _, one := range r.Results {
		_, _ = fmt.Fprintf(w, "%s: %s\n", one.Contender, one.Settings)
	}
}
