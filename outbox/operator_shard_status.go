package outbox

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
)

// shardLook is up to how many events of a shard are looked at for its status.
const shardLook = 1000

var (
	//go:embed operator_relays.sql
	operatorRelaysSQL string
	//go:embed operator_shards.sql
	operatorShardsSQL string
)

// ShardStatus is a shard and how it goes there.
type ShardStatus struct {
	Shard int16 `json:"shard"`

	// The owner; empty = nobody.
	RelayID   string `json:"relay_id"`
	RelayName string `json:"owner"`

	ClaimVersion int64 `json:"claim_version"` // owners it has had

	// FrontierPosition is up to where its owner has stored that everything is settled, held topics apart.
	FrontierPosition int64 `json:"frontier_position"`

	// Lag is how many of the next 1000 events are neither sent nor parked. LagAtLeast says that there may be more.
	Lag        int64 `json:"lag"`
	LagAtLeast bool  `json:"lag_at_least"`

	// SentPerSecond counts what the owner has sent in the last 10 seconds among the 1000 highest positions sent, or over the
	// time those took if that is shorter. Events that were sent long after their neighbours are not among them.
	SentPerSecond float64 `json:"sent_per_second"`

	Takeovers    int    `json:"takeovers"`         // in a row, without progress
	Suspect      string `json:"suspect,omitempty"` // event_id of the event that may take its relays down
	SuspectTries int    `json:"suspect_tries"`

	LastError string `json:"last_error"` // of its held topics and parked events
}

// Relays lists the relays in the register, the living first.
func (o *Operator) Relays(ctx context.Context) ([]RelayStatus, error) {
	relays, err := operatorRows(ctx, o.db, o.sql(operatorRelaysSQL), scanRelayStatus)
	if err != nil {
		return nil, fmt.Errorf("outbox: relays: %w", err)
	}
	return relays, nil
}

// Shards lists the shards. It looks at no more than a thousand events of each.
func (o *Operator) Shards(ctx context.Context) ([]ShardStatus, error) {
	var shards []ShardStatus
	err := o.uncompiled(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		shards, err = operatorRows(ctx, tx, o.sql(operatorShardsSQL), scanShardStatus, shardLook)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("outbox: shards: %w", err)
	}
	return shards, nil
}

// scanShardStatus reads a row of operator_shards.sql.
func scanShardStatus(scan scanner) (s ShardStatus, err error) {
	err = scan(&s.Shard, &s.RelayID, &s.RelayName, &s.ClaimVersion, &s.FrontierPosition, &s.Lag, &s.LagAtLeast,
		&s.SentPerSecond, &s.Takeovers, &s.Suspect, &s.SuspectTries, &s.LastError)
	return s, err
}
