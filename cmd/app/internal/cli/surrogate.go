package cli

import (
	"strconv"
	"unicode/utf16"
)

// loneSurrogate says whether JSON text escapes half a character, as in "\ud800". encoding/json would put U+FFFD in its
// place, and two different texts could become one.
func loneSurrogate(text []byte) bool {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		r, escaped := escape(text[i:])
		switch {
		case !escaped:
			i++ // what follows the backslash is no beginning
		case !utf16.IsSurrogate(r):
			i += 5
		default:
			low, escaped := escape(text[min(i+6, len(text)):])
			if !escaped || utf16.DecodeRune(r, low) == '\uFFFD' {
				return true
			}
			i += 11
		}
	}
	return false
}

// escape reads the escape sequence that text begins with, if it is one of a code unit.
func escape(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(unit), err == nil
}
