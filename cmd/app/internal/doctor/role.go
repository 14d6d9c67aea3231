package doctor

import (
	"context"
	_ "embed"
)

//go:embed role.sql
var roleSQL string

var role = subject{
	names: []string{"rights.role"},
	needs: postgres,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		var name string
		var superuser, owner bool
		if err := e.DB.QueryRowContext(ctx, roleSQL, e.config.Schema).Scan(&name, &superuser, &owner); err != nil {
			return nil, err
		}
		switch {
		case superuser:
			return []Check{warning("rights.role", "%s is a superuser: give relays and writers roles of their own, with no more than they need", name)}, nil
		case owner:
			return []Check{warning("rights.role", "%s owns the outbox, so it may alter and empty it: give relays and writers roles of their own", name)}, nil
		}
		return []Check{ok("rights.role", "%s, neither superuser nor owner of the outbox", name)}, nil
	},
}
