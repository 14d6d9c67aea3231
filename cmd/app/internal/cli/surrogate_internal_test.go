package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHalfCharactersAreFound(t *testing.T) {
	for _, text := range []string{`"\ud800"`, `"\udfff"`, `"\ud83d\ud83d\ude00"`, `"\ude00\ud83d"`, `"a\\\ud800"`, `"\uD800x"`} {
		require.True(t, loneSurrogate([]byte(text)), text)
	}
	for _, text := range []string{`""`, `"\u0041"`, `"\ud83d\ude00"`, `"\\ud800"`, `"\n\\\\ud800"`, "\"😀\"", `"\u00"`} {
		require.False(t, loneSurrogate([]byte(text)), text)
	}
}
