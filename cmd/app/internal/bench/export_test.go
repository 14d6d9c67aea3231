package bench

var (
	Rate       = rate
	Compare    = compare
	Percentile = percentile
)
