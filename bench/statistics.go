package main

import "slices"

// median is the middle of all, or the mean of the two in the middle. 0 of none.
func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return (sorted[(len(all)-1)/2] + sorted[len(all)/2]) / 2
}

// ratio is a over b, or 0 if there is nothing to compare with.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// each is what f says of every run.
func each(runs []figures, f func(figures) float64) []float64 {
	var all []float64
	for _, r := range runs {
		all = append(all, f(r))
	}
	return all
}
