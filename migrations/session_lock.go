package migrations

import (
	"context"
	"database/sql"
	"errors"
)

// lockKey is the advisory lock of a schema's migrations; $1 = the schema's name.
const lockKey = "hashtextextended('millrace migrations of ' || $1, 0)"

// sessionLock lets one process migrate while the others wait. Unlike goose's own it waits in the database instead of asking
// again every few seconds.
type sessionLock struct{ config Config }

// SessionLock implements lock.SessionLocker.
func (l sessionLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "select pg_advisory_lock("+lockKey+")", l.config.Schema)
	return err
}

// SessionUnlock implements lock.SessionLocker.
func (l sessionLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	var unlocked bool
	if err := conn.QueryRowContext(ctx, "select pg_advisory_unlock("+lockKey+")", l.config.Schema).Scan(&unlocked); err != nil {
		return err
	}
	if !unlocked {
		return errors.New("the session lock was lost: is there a pooler between this process and PostgreSQL?")
	}
	return nil
}
