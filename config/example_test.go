package config_test

import (
	"fmt"

	"github.com/millrace-go/millrace/config"
)

// Everything that is wrong is told at once, with where it is written and what to do.
func ExampleLoad() {
	_, _, err := config.Load(config.Sources{
		Environment: []string{"MILLRACE_RELAY_LEASE=10", "MILLRACE_SCHMEA=shop"},
		Flags:       map[string]string{"listen": ":8481"},
		FlagNames:   map[string]string{"listen": "listen"},
	})
	fmt.Println(err)
	// Output:
	// invalid configuration:
	//   schmea (environment MILLRACE_SCHMEA): unknown key: schema is meant?
	//   relay.lease (environment MILLRACE_RELAY_LEASE): write a duration with its unit, such as "500ms" or "10s"
	//   listen (flag --listen): use a loopback address such as 127.0.0.1: there is no login; put a proxy with one in front
}
