package doctor

import (
	"context"
	_ "embed"
	"time"
)

// maxSkew is how far clocks may be apart.
const maxSkew = time.Second

//go:embed clock.sql
var clockSQL string

var databaseClock = subject{
	names: []string{"clock.database"},
	needs: postgres,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		var skew int64
		if err := e.DB.QueryRowContext(ctx, e.sql(clockSQL)).Scan(&skew); err != nil {
			return nil, err
		}
		if d := milliseconds(skew); d.Abs() > maxSkew {
			return []Check{warning("clock.database", "clock() is %s off the server's clock: it was replaced, so leases and due times follow it; restore it from \"millrace migrate sql\"", d)}, nil
		}
		return []Check{ok("clock.database", "clock() is the server's clock")}, nil
	},
}

var machineClock = subject{
	names: []string{"clock.machine"},
	needs: postgres,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		began := time.Now()
		var there time.Time
		if err := e.DB.QueryRowContext(ctx, "select clock_timestamp()").Scan(&there); err != nil {
			return nil, err
		}
		// The server read its clock at some moment of the round trip, so only what lies outside of it is a difference.
		ended := time.Now()
		skew := max(there.Sub(ended), 0)
		if there.Before(began) {
			skew = there.Sub(began)
		}
		roundTrip := ended.Sub(began).Round(100 * time.Microsecond)
		if skew.Abs() > maxSkew {
			return []Check{warning("clock.machine", "the server's clock is %s off this machine's, round trip %s: nothing depends on it, but times in logs do not match; synchronise both",
				skew.Round(time.Millisecond), roundTrip)}, nil
		}
		return []Check{ok("clock.machine", "the server's clock and this machine's agree within %s, round trip %s", maxSkew, roundTrip)}, nil
	},
}
