package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lib/pq"
)

// directPause is how long the direct connection is left alone after it failed.
const directPause = 10 * time.Second

// direct is a connection of the relay's own to read on, where DirectURL gives one. There a statement can be prepared: its
// plan is made once instead of with every read, which takes as long as reading, and rows come in binary. It is no more than a
// faster way. Whatever goes wrong on it, the pool is asked instead.
type direct struct {
	db *sql.DB

	mu         sync.Mutex
	statements map[string]*sql.Stmt
	again      time.Time // not to be used before
}

// newDirect does not connect. Errors do not repeat the address: it may hold a password.
func newDirect(address string) (*direct, error) {
	config, err := pq.NewConfig(address)
	if err != nil {
		return nil, errors.New("DirectURL is no connection string, or names a file that cannot be read")
	}
	config = config.Clone()
	config.BinaryParameters, config.DisablePreparedBinaryResult = false, false
	if config.Runtime == nil {
		config.Runtime = map[string]string{}
	}
	config.Runtime["plan_cache_mode"] = "force_generic_plan"
	config.Runtime["jit"] = "off" // compiling takes longer than running
	// A plan made while a table was empty would go on reading all of it when it has millions of rows.
	config.Runtime["enable_seqscan"], config.Runtime["enable_bitmapscan"] = "off", "off"
	connector, err := pq.NewConnectorConfig(config)
	if err != nil {
		return nil, errors.New("DirectURL is no connection string, or names a file that cannot be read")
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	return &direct{db: db, statements: map[string]*sql.Stmt{}}, nil
}

// query runs a statement, or says that the pool is to be asked.
func (d *direct) query(ctx context.Context, query string, args []any) (*sql.Rows, bool) {
	if d == nil {
		return nil, false
	}
	stmt, err := d.statement(ctx, query) //nolint:sqlclosecheck // kept until the connection closes
	if err != nil {
		return nil, false
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		d.failed()
		return nil, false
	}
	return rows, true
}

func (d *direct) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Now().Before(d.again) {
		return nil, fmt.Errorf("left alone until %s", d.again)
	}
	if stmt := d.statements[query]; stmt != nil {
		return stmt, nil
	}
	stmt, err := d.db.PrepareContext(ctx, query) //nolint:sqlclosecheck // kept until the connection closes
	if err != nil {
		d.again = time.Now().Add(directPause)
		return nil, err
	}
	d.statements[query] = stmt
	return stmt, nil
}

// failed leaves the connection alone for a while, and makes a new one then.
func (d *direct) failed() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.again = time.Now().Add(directPause)
	d.db.SetMaxIdleConns(0) // closes it
	d.db.SetMaxIdleConns(1)
}

func (d *direct) close() {
	if d == nil {
		return
	}
	_ = d.db.Close() // with the statements; nobody reads any more
}
