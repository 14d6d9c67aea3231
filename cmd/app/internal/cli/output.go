package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

const (
	outputTable     = "table"
	outputJSON      = "json"
	outputJSONLines = "jsonl"
)

// document prints one result: as a JSON document, on one line, or as show draws it.
func (a *app) document(v any, show func(t table.Writer)) error {
	encoder := json.NewEncoder(a.stdout)
	encoder.SetEscapeHTML(false)
	switch a.output {
	case outputJSON:
		encoder.SetIndent("", "  ")
		return encoder.Encode(v)
	case outputJSONLines:
		return encoder.Encode(v)
	default:
		t := a.newTable()
		show(t)
		_, err := fmt.Fprintln(a.stdout, t.Render())
		return err
	}
}

// newTable makes a table that is coloured where a person sees it, unless NO_COLOR is set.
func (a *app) newTable() table.Writer {
	text.EnableColors()
	if os.Getenv("NO_COLOR") != "" || !terminal(a.stdout) {
		text.DisableColors()
	}
	t := table.NewWriter()
	style := table.StyleLight
	style.Format.Header = text.FormatDefault
	style.Format.Footer = text.FormatDefault
	style.Options.DrawBorder = false
	style.Options.SeparateColumns = false
	t.SetStyle(style)
	return t
}

// terminal says whether a person watches w.
func terminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// verdict is a number that should be 0.
func verdict(n int) string {
	if n == 0 {
		return text.FgGreen.Sprint("0")
	}
	return text.FgRed.Sprint(n)
}

func count(n, of int) string { return fmt.Sprintf("%d, %d", n, of) }

// seconds rounds to milliseconds.
func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }
