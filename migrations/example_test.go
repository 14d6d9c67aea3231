package migrations_test

import (
	"fmt"
	"strings"

	"github.com/millrace-go/millrace/migrations"
)

// For a tool of one's own: the whole schema as a script.
func ExampleSQL() {
	script, err := migrations.SQL(migrations.Config{Schema: "acme", Shards: 16})
	fmt.Println(err)
	fmt.Println(strings.Contains(script, `create table "acme".outbox (`))
	// Output:
	// <nil>
	// true
}
