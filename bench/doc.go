// The command bench compares the relay with others that take events from a PostgreSQL outbox to Kafka: Watermill's own
// forwarder and Debezium's outbox event router, each with default and with tuned settings, and with what a plain producer
// reaches on the same broker. It is a module of its own, so that nobody who uses the library gets its dependencies.
//
//	go run . --events 200000 --runs 3 --out results.json
//
// It starts a PostgreSQL (wal_level=logical) and an Apache Kafka of its own and stops them. Debezium is fetched through
// Maven once. Every contender relays the same events, in an outbox that is full when it starts, in a process of its own;
// the contenders take turns. The figures are counted from the topics.
package main
