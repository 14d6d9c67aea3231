package outbox_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/internal/testkit"
)

// exampleTest lets an Example use the test kit.
type exampleTest struct {
	testing.TB
	cleanups []func()
}

func (*exampleTest) Helper()                           {}
func (*exampleTest) Name() string                      { return "example" }
func (e *exampleTest) Cleanup(f func())                { e.cleanups = append(e.cleanups, f) }
func (*exampleTest) Errorf(format string, args ...any) { fmt.Printf(format, args...) }
func (*exampleTest) FailNow()                          { panic("example failed") }

// exampleDatabase is a migrated database with a table of orders, and the function that ends it.
func exampleDatabase() (db *sql.DB, end func()) {
	e := &exampleTest{}
	db = testkit.Migrated(e)
	if _, err := db.Exec("create table orders (id text primary key, state text, version bigint); insert into orders values ('4711', 'open', 1)"); err != nil {
		panic(err)
	}
	return db, func() {
		for len(e.cleanups) > 0 {
			last := len(e.cleanups) - 1
			cleanup := e.cleanups[last]
			e.cleanups = e.cleanups[:last]
			cleanup()
		}
	}
}

// printOutbox shows what a relay will send.
func printOutbox(db *sql.DB) {
	rows, err := db.Query(`select topic, event_type, coalesce(aggregate_id || ' v' || aggregate_version, ''), coalesce(convert_from(payload, 'UTF8'), '')
		from millrace.outbox order by position`)
	if err != nil {
		panic(err)
	}
	defer rows.Close()
	for rows.Next() {
		var topic, eventType, aggregate, payload string
		if err := rows.Scan(&topic, &eventType, &aggregate, &payload); err != nil {
			panic(err)
		}
		fmt.Println(strings.Join(strings.Fields(topic+" "+eventType+" "+aggregate+" "+payload), " "))
	}
	if err := rows.Err(); err != nil {
		panic(err)
	}
}
