package inbox

import (
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"
)

// settleTimeout bounds what has to be finished after the handler, even while shutting down.
const settleTimeout = 10 * time.Second

var (
	//go:embed mark.sql
	markSQL string
	//go:embed take.sql
	takeSQL string
	//go:embed payload_hash.sql
	payloadHashSQL string
	//go:embed bury.sql
	burySQL string
	//go:embed bury_again.sql
	buryAgainSQL string
	//go:embed replay.sql
	replaySQL string
	//go:embed list.sql
	listSQL string
	//go:embed show.sql
	showSQL string
	//go:embed due.sql
	dueSQL string
)

// Store reads and writes the inbox. It keeps no state of its own and is safe for concurrent use.
type Store struct {
	db     *sql.DB
	schema string
}

// NewStore makes a Store on db, which stays the caller's to close. Nothing is read or written.
func NewStore(db *sql.DB, config Config) (*Store, error) {
	config.setDefaults()
	err := config.Validate()
	if db == nil {
		err = errors.Join(errors.New("the database is missing"), err)
	}
	if err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	return &Store{db: db, schema: `"` + config.Schema + `"`}, nil
}

func (s *Store) query(statement string) string {
	return strings.ReplaceAll(statement, "{{schema}}", s.schema)
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%dms", max(d.Milliseconds(), 1)) // 0 would mean no limit
}

// nullable keeps nil apart from empty with every driver.
func nullable(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}
