// Command millrace carries committed events to Kafka and shows that it does: see "millrace help".
package main

import (
	"os"

	"github.com/millrace-go/millrace/cmd/app/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
