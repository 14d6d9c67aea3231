package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"
)

// reconnectBound is how long to look for connections that lead nowhere.
const reconnectBound = 5 * time.Second

// leadsNowhere says that the connection is to a server on which nothing may be written: a primary that was demoted, say, or
// one that its operator has fenced off. It works, so that a pool would keep it for ever.
func leadsNowhere(err error) bool {
	state := sqlState(err)
	return state == readOnly || state == notPrerequisite
}

// reconnect closes the pool's idle connections to servers on which nothing may be written, so that the next ones are made anew,
// to wherever the address leads now. Connections in use are left to their users.
func reconnect(ctx context.Context, db *sql.DB) {
	ctx, cancel := context.WithTimeout(ctx, reconnectBound)
	defer cancel()
	var kept []*sql.Conn
	defer func() {
		for _, c := range kept {
			_ = c.Close() // back to the pool
		}
	}()
	for range db.Stats().Idle {
		c, err := db.Conn(ctx)
		if err != nil {
			return
		}
		var standby, fenced bool
		err = c.QueryRowContext(ctx, `select pg_is_in_recovery(), current_setting('transaction_read_only')::boolean`).Scan(&standby, &fenced)
		if err == nil && !standby && !fenced {
			kept = append(kept, c)
			continue
		}
		_ = c.Raw(func(any) error { return driver.ErrBadConn }) // closes it
		if err := c.Close(); err != nil && !errors.Is(err, sql.ErrConnDone) {
			return
		}
	}
}
