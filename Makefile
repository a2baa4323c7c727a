# Everything a developer or CI does goes through here, so that a green run on a
# laptop and a green run in CI mean the same.

SHELL       := bash
# -e and pipefail: a recipe with a pipe or a loop must not hide a failure.
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

GO        ?= go
export GO # the scripts in .ci run it, too
# Each module as its users get it: a developer's go.work would mix their requirements.
export GOWORK := off
FUZZTIME  ?= 10s
CHAOSTIME ?= 20s
CHAOSSEED ?=
CHAOSREPORT ?=
CHAOSKILLS ?=
MUTANT    ?=
MUTANTS_NEAR ?=
SERVERS   ?=
SIMRUNS    ?= 24
SIMSEED    ?= 1
SIMALSO    ?=
SIMREPORT  ?=
COUNT     ?= 1
BENCH     ?= .
TIMEOUT   ?= 40m
TESTFLAGS ?=

# Two packages at once, also on a big machine: several of them start real Redis
# servers and assert timing, and more neighbours would only make them wait.
PARALLEL ?= 2

# Tests of these names talk to a real redis-server (see CONTRIBUTING.md).
INTEGRATION ?= Real|Integration|Conformance

# Lazy (=): asked of git only by the targets that need it.
VERSION = $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
BUILD   = CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/mandate ./cmd/mandate

# In CI a test that skips because a server is missing would be a hole that nobody
# sees: the tests read these variables and fail instead of skipping.
ifeq ($(CI),true)
export MANDATE_TEST_REQUIRE_REDIS := 1
export MANDATE_TEST_REQUIRE_POSTGRES := 1
export MANDATE_TEST_REQUIRE_MARIADB := 1
export MANDATE_TEST_REQUIRE_CHROMIUM := 1
export MANDATE_TEST_REQUIRE_PROMTOOL := 1
export MANDATE_TEST_REQUIRE_HAPROXY := 1
export MANDATE_TEST_REQUIRE_GIT := 1
export MANDATE_TEST_REQUIRE_SYSTEMD_ANALYZE := 1
endif

.PHONY: help
help: ## print this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: ## watch elections on embedded Redis, nothing to set up
	@echo 'compiling: a minute or two the first time, then seconds' >&2
	@$(BUILD)
	@bin/mandate demo

.PHONY: poller
poller: ## watch the queue-feeding example, its leaders hung and killed: no server needed
	@echo 'compiling: a minute or two the first time, then seconds' >&2
	@cd examples/poller && $(GO) run .

.PHONY: shards
shards: ## watch the invoicing example, its shards owned evenly by members that hang and die: no server needed
	@echo 'compiling: a minute or two the first time, then seconds' >&2
	@cd examples/shards && $(GO) run .

.PHONY: up
up: ## start the poller example in containers: 3 Redis, PostgreSQL, 3 workers, a producer
	@docker compose version >/dev/null 2>&1 || { echo 'make up needs docker with its compose plugin. Without it: make poller' >&2; exit 1; }
	docker compose up --build --detach --wait
	@echo 'who leads:  docker compose exec worker /mandate status poller'
	@echo 'all well:   docker compose exec worker /poller verify'

.PHONY: down
down: ## stop the containers of `make up`, and forget their data
	@docker compose down --volumes --remove-orphans

.PHONY: test
test: ## run all tests with the race detector, on a real redis-server where there is one
	@.ci/which-redis
	EACH_JOBS=$(PARALLEL) EACH_ALONE='/chaos' .ci/each $(CURDIR)/.ci/gotest $$(.ci/race) -shuffle=on -timeout $(TIMEOUT) -p $(PARALLEL) $(TESTFLAGS) ./...

.PHONY: integration
integration: export MANDATE_TEST_REQUIRE_REDIS := 1
integration: ## run only the tests on a real redis-server (required here)
	@.ci/which-redis
	.ci/matching '$(INTEGRATION)' $(CURDIR)/.ci/gotest $$(.ci/race) -count=$(COUNT) -timeout $(TIMEOUT) -p 1 -run '$(INTEGRATION)' $(TESTFLAGS)

# CI runs the short form as a part of `make test`.
.PHONY: chaos
chaos: export MANDATE_TEST_REQUIRE_REDIS := 1
chaos: export CHAOSTIME := $(CHAOSTIME)
chaos: export CHAOSSEED := $(CHAOSSEED)
chaos: export CHAOSREPORT := $(abspath $(CHAOSREPORT))
chaos: export CHAOSKILLS := $(CHAOSKILLS)
chaos: ## inject faults into real processes, then verify the journal (CHAOSTIME=20s CHAOSKILLS=1000 CHAOSSEED=n)
	@.ci/which-redis
	.ci/matching Chaos $(GO) test $$(.ci/race) -v -count=$(COUNT) -timeout 24h -p 1 -run Chaos $(TESTFLAGS)

.PHONY: servers
servers: export SERVERS := $(SERVERS)
servers: ## run conformance, integration and a short chaos on other Redis and Valkey, from Debian's suites (SERVERS=valkey-8)
	@.ci/on-servers

.PHONY: sim
sim: ## simulate elections under faults: SIMRUNS=24 seeds from SIMSEED=1 on, and one that SIMALSO=name gives
	@$(GO) test -v -count=1 -timeout 24h -run 'TestSimulation$$' $(TESTFLAGS) ./elector/proof/internal/simtest \
		-sim.first=$(SIMSEED) -sim.runs=$(SIMRUNS) -sim.also='$(SIMALSO)' -sim.report=$(abspath $(SIMREPORT))

.PHONY: mutants
mutants: ## make each deliberate bug once, and show which test notices it (MUTANT=regexp; MUTANTS_NEAR=commit: at most 60, about what changed since)
	@$(GO) test -v -count=1 -timeout 60m -run 'TestMutants$$' ./elector/proof/internal/mutants -mutants '$(or $(MUTANT),.)' -near '$(MUTANTS_NEAR)'

# Never with -race or beside another package: that would measure the neighbour.
.PHONY: bench
bench: ## run the benchmarks (BENCH=regexp COUNT=n; MANDATE_BENCH_LONG=1: also those of some minutes), on a real redis-server where one is needed
	@.ci/which-redis
	.ci/matching ^Benchmark $(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) -timeout 30m -p 1

.PHONY: fuzz
fuzz: ## fuzz every Fuzz target for a short while (FUZZTIME=10s)
	@.ci/fuzz $(FUZZTIME)

.PHONY: model
model: ## check the model of the fencing tokens with spin, and that its mutants are caught
	@docs/model/check.sh

.PHONY: lint
lint: ## gofmt, go vet, golangci-lint (installed when missing), go mod tidy -diff
	@.ci/lint

.PHONY: build
build: ## build the static binary bin/mandate
	$(BUILD)

.PHONY: check
check: lint test build ## what a change must pass: lint, test, build

.PHONY: tidy
tidy: ## bring go.mod and go.sum of every module up to date
	@.ci/each $(GO) mod tidy

.PHONY: clean
clean: ## remove what was built (the linter in .bin stays: it takes a minute to install)
	rm -rf bin coverage*
	find . -path ./.git -prune -o -path ./.bin -prune -o -type f \( -name '*.test' -o -name '*.out' \) -exec rm -f {} +
