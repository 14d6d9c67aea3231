// Package service starts PostgreSQL and Kafka on 127.0.0.1 for demonstrations, measurements and tests, from published
// packages alone: no container engine and no installed server is needed.
//
// A service runs under a supervisor: this executable started again. The supervisor starts the service, prints one line
// of JSON saying where it listens, and stops the service once its standard input ends. The kernel closes that pipe
// when the parent ends in whatever way, so not even a SIGKILL of the parent leaves a server behind.
//
//	postgres, err := service.StartPostgres(ctx, service.PostgresConfig{StateDir: dir})
//	if err != nil {
//		return err
//	}
//	defer postgres.Stop()
//
// Importing the package is enough to make an executable its own supervisor: the marker is looked for before main.
package service
