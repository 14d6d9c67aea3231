package orders_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/examples/orders"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

func newService(t *testing.T) (*orders.Service, *sql.DB) {
	t.Helper()
	db := testkit.Migrated(t)
	require.NoError(t, orders.CreateTables(t.Context(), db))
	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{}, nil)
	require.NoError(t, err)
	return orders.NewService(db, publisher, outbox.Tables{}, "orders"), db
}

func count(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&n))
	return n
}

func TestEveryAppliedOperationHasOneEventAndARefusedOneNone(t *testing.T) {
	service, db := newService(t)
	applied, refused := 0, 0
	for _, operation := range orders.Generate(60, 5) {
		_, err := service.Apply(t.Context(), operation)
		if err != nil {
			require.True(t, orders.Refused(err), err)
			refused++
			continue
		}
		applied++
	}
	require.Positive(t, refused)
	require.Equal(t, 60, count(t, db, "select count(*) from millrace_demo.orders"))
	require.Equal(t, applied, count(t, db, "select count(*) from millrace.outbox"))
	require.Equal(t, applied, count(t, db, "select sum(version) from millrace_demo.orders"), "a version for each event")
}

func TestRefusals(t *testing.T) {
	service, _ := newService(t)
	create := orders.Operation{ID: "1", Kind: orders.Create, OrderID: "a", Customer: "c", SKU: "sku-1", Quantity: 1, AmountCents: 100, Currency: "EUR"}
	soldOut := create
	soldOut.ID, soldOut.OrderID, soldOut.SKU = "0", "b", "sku-sold-out"
	for _, step := range []struct {
		operation orders.Operation
		err       error
	}{
		{orders.Operation{ID: "x", Kind: orders.Pay, OrderID: "a"}, orders.ErrNoOrder},
		{soldOut, orders.ErrOutOfStock},
		{create, nil},
		{create, orders.ErrApplied},
		{orders.Operation{ID: "2", Kind: orders.Ship, OrderID: "a"}, orders.ErrWrongState},
		{orders.Operation{ID: "3", Kind: orders.Pay, OrderID: "a", CardDeclined: true}, orders.ErrCardDeclined},
		{orders.Operation{ID: "4", Kind: orders.Pay, OrderID: "a"}, nil},
		{orders.Operation{ID: "5", Kind: orders.Cancel, OrderID: "a", ExpectedVersion: 1}, outbox.ErrVersionConflict},
		{orders.Operation{ID: "6", Kind: orders.Ship, OrderID: "a"}, nil},
		{orders.Operation{ID: "7", Kind: orders.Cancel, OrderID: "a"}, orders.ErrWrongState},
	} {
		_, err := service.Apply(t.Context(), step.operation)
		require.ErrorIs(t, err, step.err, step.operation.ID)
		require.True(t, err == nil || orders.Refused(err), step.operation.ID)
	}
}

func TestAnUnknownCurrencyIsPermanentUntilItIsAccepted(t *testing.T) {
	_, db := newService(t)
	changed := orders.Changed{OperationID: "1", OrderID: "a", Version: 1, State: orders.Created, Currency: orders.UnknownCurrency}
	project := func() error {
		return outbox.InTx(t.Context(), db, func(ctx context.Context, tx *sql.Tx) error {
			_, err := orders.Project(ctx, tx, changed)
			return err
		})
	}
	err := project()
	require.ErrorIs(t, err, orders.ErrUnknownCurrency)
	require.True(t, event.IsPermanent(err))
	require.Zero(t, count(t, db, "select count(*) from millrace_demo.effect"))
	require.NoError(t, orders.AcceptCurrency(t.Context(), db, orders.UnknownCurrency))
	require.NoError(t, project())
	require.Equal(t, 1, count(t, db, "select count(*) from millrace_demo.effect"))
}

func TestAGeneratedFileReadsBack(t *testing.T) {
	generated := orders.Generate(30, 1)
	var file bytes.Buffer
	for _, operation := range generated {
		require.NoError(t, json.NewEncoder(&file).Encode(operation))
	}
	read, err := orders.ReadOperations(&file)
	require.NoError(t, err)
	require.Equal(t, generated, read)
}

func TestABadLineIsNamed(t *testing.T) {
	good := `{"operation_id":"1","operation":"pay","order_id":"a"}` + "\n"
	for _, bad := range []string{
		`{"operation_id":"1","operation":"pay","order":"a"}`, `{"operation_id":"1","operation":"burn","order_id":"a"}`,
		`{"operation_id":"1","operation":"create","order_id":"a"}`, `{} {}`, `x`,
	} {
		_, err := orders.ReadOperations(strings.NewReader(good + "\n" + bad))
		require.ErrorContains(t, err, "line 3: ", bad)
	}
	_, err := orders.ReadOperations(strings.NewReader(good))
	require.NoError(t, errors.Unwrap(err))
}
