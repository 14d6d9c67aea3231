package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Its figures mean nothing; that everything arrives, that it is counted, and that nothing is left behind, does. Debezium is
// left out: it needs a real Kafka and a download.
func TestTheWholeComparison(t *testing.T) {
	temporary := t.TempDir()
	// PostgreSQL runs as somebody else where root runs this, who must be able to get to its directory and to remove it.
	require.NoError(t, os.Chmod(filepath.Dir(temporary), 0o755))
	require.NoError(t, os.Chmod(temporary, 0o777))
	t.Setenv("TMPDIR", temporary)
	o := defaults()
	o.events, o.stockEvents, o.runs, o.embedded = 1500, 1200, 2, true
	o.contenders = []string{nameMillrace, nameStock, nameStockTuned}
	r, err := compare(t.Context(), o, t.Logf)
	require.NoError(t, err)
	require.False(t, r.trouble())
	require.Len(t, r.Limits, 2)
	require.Len(t, r.Results, 3)
	for i, one := range r.Results {
		require.Equal(t, o.contenders[i], one.Contender)
		require.Len(t, one.Runs, 2)
		require.Positive(t, one.EventsPerSecond)
		require.Positive(t, one.MillraceRatio)
		require.Positive(t, one.CPUPerEvent)
		require.Positive(t, one.RSSMiB)
	}
	require.Equal(t, []int{1500, 1200, 1200}, []int{r.Results[0].Events, r.Results[1].Events, r.Results[2].Events})
	_, err = json.Marshal(r)
	require.NoError(t, err)
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	require.Empty(t, left)
}
