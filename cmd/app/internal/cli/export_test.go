package cli

import (
	"io"
	"slices"

	"github.com/millrace-go/millrace/cmd/app/internal/demo"
)

// MainWithoutOneRecord is Main with a demo in whose evidence one record of the topic is missing, of an event that is there
// once only.
func MainWithoutOneRecord(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return main(args, &app{stdin: stdin, stdout: stdout, stderr: stderr, tamper: func(e *demo.Evidence) {
		times := map[string]int{}
		for _, r := range e.Orders {
			times[r.EventID]++
		}
		i := slices.IndexFunc(e.Orders, func(r demo.Record) bool { return times[r.EventID] == 1 })
		e.Orders = slices.Delete(e.Orders, i, i+1)
	}})
}

// Besides is what an interrupt does not explain.
var Besides = besides

// PendingSQL is what metrics count.
var PendingSQL = pendingSQL
