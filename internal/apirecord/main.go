// Command apirecord writes down the exported API of every library package, one text file a package, so that a change
// of the API shows in review as a changed line:
//
//	go run ./internal/apirecord DIRECTORY
//
// What DIRECTORY held of an earlier record is replaced. The application's own packages have no record. It is run from
// the root of the module and needs nothing but the Go command.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "apirecord:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("the one argument is the directory to write to")
	}
	api, err := describeModule(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(args[0], 0o755); err != nil {
		return err
	}
	outdated, err := filepath.Glob(filepath.Join(args[0], "*.txt"))
	if err != nil {
		return err
	}
	for _, file := range outdated {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	for name, lines := range api {
		content := strings.Join(lines, "\n") + "\n"
		if err := os.WriteFile(filepath.Join(args[0], name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
