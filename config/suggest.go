package config

import "strings"

// unknownKey says what was probably meant.
func unknownKey(name string) string {
	plain := func(s string) string {
		return strings.NewReplacer(".", "", "_", "", "-", "").Replace(strings.ToLower(strings.TrimPrefix(s, Prefix)))
	}
	best, distance := "", 4
	for _, k := range keys {
		if d := editDistance(plain(name), plain(k.name)); d < distance {
			best, distance = k.name, d
		}
	}
	if best == "" {
		return `unknown key: remove it; "millrace config show" lists all`
	}
	return "unknown key: " + best + " is meant?"
}

// editDistance counts the letters to add, remove or change.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
