// Package migrations creates and changes millrace's tables: the SQL files in sql/, applied by goose as a library.
//
// The applied version is kept in the table schema_version of the same schema. Any number of processes may migrate one
// database at the same moment: one does the work, the others wait for it.
//
//	err := migrations.Up(ctx, db, migrations.Config{})
//
// Migrations take a session-level lock and so want a direct connection to PostgreSQL 14 or newer. Everything else in
// millrace works behind a transaction-mode pooler. Teams that apply DDL with a tool of their own give it the script
// that SQL returns.
package migrations
