# Short names for the steps of .ci/run, which holds the commands.

.DEFAULT_GOAL := help

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

.PHONY: build
build: ## build the millrace binary into bin/
	go build -o bin/millrace ./cmd/app

.PHONY: test
test: ## every test, with embedded services
	@.ci/run test

.PHONY: lint
lint: ## formatting, vet, house rules and import directions
	@.ci/run tools format vet lint

.PHONY: race
race: ## every test under the race detector
	@.ci/run race

.PHONY: real
real: ## the tests that use Kafka, against Apache Kafka
	@.ci/run kafka

.PHONY: postgres
postgres: ## the database tests on the oldest and the newest PostgreSQL
	@.ci/run postgres

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZ_TIME (5s)
	@.ci/run fuzz

.PHONY: api
api: ## accept the exported API as it is now into api/
	@.ci/run api

.PHONY: api-check
api-check: ## compare the exported API with api/
	@.ci/run api-check

.PHONY: tidy
tidy: ## check go.mod and go.sum
	@.ci/run tidy

.PHONY: vulnerabilities
vulnerabilities: ## look for known vulnerabilities
	@.ci/run tools vulnerabilities

.PHONY: demo
demo: ## the demonstration, with the embedded and with the real Kafka
	@.ci/run demo

.PHONY: bench-peers
bench-peers: ## compare with Watermill's forwarder and Debezium, for half an hour (results in bench/results.json)
	cd bench && go run .

.PHONY: tools
tools: ## build the linter and the vulnerability scanner into .cache/bin
	@.ci/run tools

.PHONY: ci
ci: ## everything, as it has to pass before a change goes in
	@.ci/run
