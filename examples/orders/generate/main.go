// Command generate writes the example files beside the package: operations.jsonl, for "millrace demo --from", and
// events.jsonl, for "millrace publish --from". It writes the same files every time.
//
//	go run ./examples/orders/generate examples/orders
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/millrace-go/millrace/examples/orders"
)

// lines is how many lines each file has.
const lines = 1000

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate DIRECTORY")
		os.Exit(2)
	}
	for name, content := range map[string]func() ([]byte, error){
		"operations.jsonl": operations, "events.jsonl": events,
	} {
		text, err := content()
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[1], name), text, 0o644) //nolint:gosec // an example for everybody
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func operations() ([]byte, error) {
	return encode(orders.Generate(345, 2)[:lines])
}

func events() ([]byte, error) { return encode(orders.GenerateEvents(lines, 3)) }

func encode[T any](values []T) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	for _, v := range values {
		if err := encoder.Encode(v); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}
