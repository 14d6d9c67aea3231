package doctor

import (
	"context"
	"database/sql"
	"errors"
)

var pooler = subject{
	names: []string{"pooler.mode"},
	needs: postgres,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		shared, err := e.pooled(ctx)
		if err != nil {
			return nil, err
		}
		if shared {
			return []Check{ok("pooler.mode", "a pooler in transaction mode is in between: migrate and listen on the server's own address; with lib/pq say binary_parameters=yes, with pgx default_query_exec_mode=exec")}, nil
		}
		return []Check{ok("pooler.mode", "each connection has a server process of its own: direct, or a pooler in session mode")}, nil
	},
}

// pooled says whether connections share server processes. It holds two, and asks each for the process it talks to, again and
// again. With a process for each, both always name the same, and not that of the other. A pool that has one process gives it
// to both; in one that has several, three questions of one connection in a row meet two, or the order below meets another.
func (e *examination) pooled(ctx context.Context) (shared bool, err error) {
	var connections [2]*sql.Conn
	for n := range connections {
		if connections[n], err = e.DB.Conn(ctx); err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, connections[n].Close()) }()
	}
	var processes [2]int
	for n, asked := range []int{0, 1, 0, 0, 1, 1, 0, 1, 0} {
		var process int
		if err := connections[asked].QueryRowContext(ctx, "select pg_backend_pid()").Scan(&process); err != nil {
			return false, err
		}
		if n < len(processes) {
			processes[asked] = process
		}
		if process != processes[asked] || processes[0] == processes[1] {
			return true, nil
		}
	}
	return false, nil
}
