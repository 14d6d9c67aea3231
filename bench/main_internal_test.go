package main

import (
	"os"
	"testing"
)

// The test binary is Watermill's forwarder, too, when it is told to be.
func TestMain(m *testing.M) {
	if settings, is := os.LookupEnv(stockMarker); is {
		os.Exit(runStock(settings))
	}
	os.Exit(m.Run())
}
