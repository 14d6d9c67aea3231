package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// In this package, because a command has nothing to import.
func TestTheCommittedFilesAreWhatIsGenerated(t *testing.T) {
	for name, content := range map[string]func() ([]byte, error){"operations.jsonl": operations, "events.jsonl": events} {
		want, err := content()
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join("..", name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "run go run ./examples/orders/generate examples/orders")
	}
}
