// Package integration holds the promises of the whole, as black-box tests on PostgreSQL and Kafka: one file a guarantee,
// named after the failure it prevents. The fixtures are in fixture_test.go (database, relay, pipeline, effects),
// topic_fixture_test.go (records, topics, groups), relay_process_test.go (a relay in a process of its own, to kill and to
// freeze) and broker_proxy_test.go (a broker that refuses, falls silent or freezes).
//
// The embedded broker is the default; MILLRACE_TEST_KAFKA=real runs the same tests on Apache Kafka:
//
//	go test ./integration/
//	MILLRACE_TEST_KAFKA=real go test ./integration/
package integration
