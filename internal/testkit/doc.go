// Package testkit gives tests real services: one PostgreSQL server and one Kafka broker per test process, started the
// first time a test asks and ended by themselves with the process, and a database, topic or group of its own per test.
//
//	db := testkit.DB(t)                  // a fresh, empty database
//	topic := testkit.Topic(t, 6)         // a fresh topic
//	records := testkit.ReadTopic(t, topic)
//	pooled := testkit.PgBouncer(t, dsn)  // the same database, through a pooler
//
// A service that can not be started fails the test; nothing is ever skipped. The environment chooses other services:
// MILLRACE_TEST_DATABASE_URL (an existing server), MILLRACE_TEST_POSTGRES_VERSION (a major version),
// MILLRACE_TEST_KAFKA_BROKERS (existing brokers) and MILLRACE_TEST_KAFKA=real (Apache Kafka instead of the embedded
// broker). No goroutine is left in the test process.
package testkit
