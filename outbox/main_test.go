package outbox_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var nopLogger = watermill.NopLogger{}
