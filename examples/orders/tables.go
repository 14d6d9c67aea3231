package orders

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
)

// Schema is the PostgreSQL schema of the service's own tables.
const Schema = "millrace_demo"

//go:embed tables.sql
var tables string

// CreateTables makes the service's tables, which must not be there yet.
func CreateTables(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, tables); err != nil {
		return fmt.Errorf("orders: create tables: %w", err)
	}
	return nil
}

// DropTables removes the service's tables with everything in them. None there is no error.
func DropTables(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, "drop schema if exists "+Schema+" cascade"); err != nil {
		return fmt.Errorf("orders: drop tables: %w", err)
	}
	return nil
}

// AcceptCurrency makes the projection understand a currency.
func AcceptCurrency(ctx context.Context, db *sql.DB, code string) error {
	if _, err := db.ExecContext(ctx, "insert into millrace_demo.currency values ($1) on conflict do nothing", code); err != nil {
		return fmt.Errorf("orders: accept currency: %w", err)
	}
	return nil
}
