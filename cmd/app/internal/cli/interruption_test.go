package cli_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/cmd/app/internal/cli"
)

func TestAnInterruptHidesNoOtherError(t *testing.T) {
	own := fmt.Errorf("PostgreSQL is %w: %w", errors.New("unreachable"), context.Canceled)
	other := errors.New("drop topics: not allowed")
	for _, c := range []struct {
		err     error
		besides []error
	}{
		{nil, nil},
		{context.Canceled, nil},
		{own, nil},
		{other, []error{other}},
		{errors.Join(own, other), []error{other}},
		{errors.Join(context.Canceled, errors.Join(other, own)), []error{other}},
		{fmt.Errorf("demo: %w", own), nil},
		{fmt.Errorf("demo: %w", errors.Join(own, other)), []error{other}},
	} {
		require.Equal(t, c.besides, cli.Besides(c.err), "%v", c.err)
	}
}
