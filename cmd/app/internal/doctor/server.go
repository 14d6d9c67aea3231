package doctor

import (
	"context"
	_ "embed"
	"time"
)

const (
	minServerVersion = 140000
	// Shorter bounds end what the relay does on a busy day.
	shortStatement = 30 * time.Second
	shortLock      = 5 * time.Second
)

//go:embed server.sql
var serverSQL string

// settings are those of the server as this role and database get them.
type settings struct {
	version                                          int
	versionText, synchronousCommit, wal, isolation   string
	jit, planCache                                   string
	standby, fsync, fullPages                        bool
	idleInTransaction, statementTimeout, lockTimeout int64 // milliseconds, 0 = none
}

var server = subject{
	names: []string{
		"postgres.version", "postgres.primary", "postgres.synchronous_commit", "postgres.crash_safety", "postgres.wal_level",
		"postgres.isolation", "postgres.idle_in_transaction", "postgres.statement_timeout", "postgres.lock_timeout", "postgres.planner",
	},
	needs: postgres,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		var s settings
		err := e.DB.QueryRowContext(ctx, serverSQL).Scan(&s.version, &s.versionText, &s.standby, &s.synchronousCommit, &s.fsync, &s.fullPages,
			&s.wal, &s.isolation, &s.idleInTransaction, &s.statementTimeout, &s.lockTimeout, &s.jit, &s.planCache)
		if err != nil {
			return nil, err
		}
		return []Check{
			s.checkVersion(), s.checkPrimary(), s.checkCommit(), s.checkCrashSafety(), ok("postgres.wal_level", "%s; millrace does not need logical", s.wal),
			s.checkIsolation(), s.checkIdle(),
			bound("postgres.statement_timeout", "statement_timeout", s.statementTimeout, shortStatement),
			bound("postgres.lock_timeout", "lock_timeout", s.lockTimeout, shortLock),
			ok("postgres.planner", "jit=%s, plan_cache_mode=%s; the relay itself prepares nothing", s.jit, s.planCache),
		}, nil
	},
}

func (s settings) checkVersion() Check {
	if s.version < minServerVersion {
		return failed("postgres.version", "%s: PostgreSQL 14 or newer is required", s.versionText)
	}
	return ok("postgres.version", "%s", s.versionText)
}

func (s settings) checkPrimary() Check {
	if s.standby {
		return failed("postgres.primary", "this is a standby, where nothing can be written or relayed: give the primary's address")
	}
	return ok("postgres.primary", "it is the primary")
}

func (s settings) checkCommit() Check {
	if s.synchronousCommit == "off" {
		return warning("postgres.synchronous_commit", "off: after a crash, transactions that were told committed are gone with their events; set it on for this role")
	}
	return ok("postgres.synchronous_commit", "%s", s.synchronousCommit)
}

func (s settings) checkCrashSafety() Check {
	if !s.fsync || !s.fullPages {
		return warning("postgres.crash_safety", "fsync=%t, full_page_writes=%t: a power cut can destroy the database; turn both on", s.fsync, s.fullPages)
	}
	return ok("postgres.crash_safety", "fsync and full_page_writes are on")
}

func (s settings) checkIsolation() Check {
	if s.isolation != "read committed" {
		return warning("postgres.isolation", "default_transaction_isolation is %s, so settling fails and is repeated when it meets another: alter this role to read committed", s.isolation)
	}
	return ok("postgres.isolation", "%s", s.isolation)
}

func (s settings) checkIdle() Check {
	const name = "postgres.idle_in_transaction"
	if s.idleInTransaction == 0 {
		return warning(name, "idle_in_transaction_session_timeout=0: a writer that hangs in its transaction keeps all later ones in the horizon; set one, such as 1min, for the roles of writers")
	}
	return ok(name, "idle_in_transaction_session_timeout=%s", milliseconds(s.idleInTransaction))
}

// bound judges a timeout by how short it is.
func bound(name, setting string, value int64, short time.Duration) Check {
	switch {
	case value == 0:
		return ok(name, "%s=0: none for this role", setting)
	case milliseconds(value) < short:
		return warning(name, "%s=%s: it ends what the relay does on a busy day; alter this role to %s or more", setting, milliseconds(value), short)
	}
	return ok(name, "%s=%s", setting, milliseconds(value))
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
