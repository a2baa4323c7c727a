# Everything a developer or CI does goes through here, so that a green run on a
# laptop and a green run in CI mean the same.

SHELL       := bash
# -e and pipefail: a recipe with a pipe or a loop must not hide a failure.
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

GO        ?= go
export GO # the scripts in .ci run it, too
# The go.work of the checkout, from which the command gets the library.
export GOWORK :=
FUZZTIME  ?= 1m
FUZZ      ?=
MUTANT    ?=
MUTANTS_NEAR ?=
SERVERS   ?=
SIMRUNS    ?= 24
SIMALSO    ?=
SIMSEED    ?= 1
COUNT     ?= 1
BENCH     ?= .
ROUNDS    ?= 5
COMPARE   ?= -out $(CURDIR)/docs/generated/compare.md
TIMEOUT   ?= 20m
TESTFLAGS ?=

# Two packages at once, also on a big machine: several of them start real Redis
# servers, and more neighbours would only make them wait.
PARALLEL ?= 2

# Tests of these names need a server, a browser or long: `make real` and `make sim` run them (see CONTRIBUTING.md).
REAL ?= Real|Integration

# All modules of go.work in one go: what they share is compiled and vetted once.
MODULES = $(addsuffix /...,$(shell .ci/modules))

# The packages in which goroutines of several threads race: connections, processes, HTTP. Those of one virtual clock
# (elector, shard, the simulation) would take three to five times longer and show nothing more.
RACED ?= ./elector/internal/... ./elector/electorhttp/... ./elector/electorprom/... ./elector/fence/... ./elector/schedule/... ./elector/supervisor/... ./health/... ./cmd/mandate/...
# Modules with SQL drivers, which take minutes to compile for the race detector: only nightly has them under it.
DRIVERS = ^./(elector/fence/sqltest|examples/)

# -race needs cgo and a C compiler with its headers; a machine with Go alone must still be able to run the tests.
RACE = $(shell if [ "$$($(GO) env CGO_ENABLED)" = 1 ] && $$($(GO) env CC) -include stdlib.h -x c -fsyntax-only /dev/null 2>/dev/null; \
	then echo -race; else echo '>>> no working C compiler: running WITHOUT the race detector (install gcc and libc6-dev)' >&2; fi)

# Says which of the two runs this is going to be.
define which-redis
@if version=$$($${MANDATE_TEST_REDIS_SERVER:-redis-server} --version 2>/dev/null); then echo ">>> the real-server tests RUN on $$version"; \
elif [[ $${MANDATE_TEST_REQUIRE_REDIS:-} == 1 ]]; then echo '>>> no redis-server on PATH, and it is required here (CI=true)' >&2; exit 1; \
else echo '>>> no redis-server on PATH: real-server tests are SKIPPED: install redis-server'; fi; \
for client in python3 node; do command -v $$client >/dev/null || echo ">>> no $$client on PATH: its client in examples/ is NOT TESTED"; done
endef

# Lazy (=): asked of git only by the target that needs it.
VERSION = $(shell git describe --tags --exclude '*/*' --always --dirty 2>/dev/null || echo dev)

# `make demo` and `make build` share these, and so what the compiler made for the other.
BUILD = CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/mandate ./cmd/mandate

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

# Without -race and -shuffle, so that go caches the results: an unchanged package costs nothing.
.PHONY: test
test: ## test everything that needs no server and no luck: 3 minutes (5 with empty caches, seconds if nothing changed)
	@echo '>>> about 3 minutes on two cores, 5 with empty caches, seconds if nothing changed'
	@$(GO) test -timeout $(TIMEOUT) -p $(PARALLEL) -skip '$(REAL)' $(TESTFLAGS) $(MODULES)
	@echo '>>> passed. Left out: real Redis, SQL, browser: make real | data races: make race | random faults: make sim | deliberate bugs: make mutants'

# Here and below: `make test` vets the same packages.
.PHONY: race
race: ## run the tests of the packages in which threads race under the race detector (needs a C compiler): 2 minutes
	$(GO) test $(RACE) -vet=off -timeout $(TIMEOUT) -p $(PARALLEL) -skip '$(REAL)|Storm' $(TESTFLAGS) $(RACED)

.PHONY: real
real: ## run the tests on real Redis, PostgreSQL, MariaDB and Chromium, those that are installed: 9 minutes, most of them to compile
	$(which-redis)
	@packages=$$(.ci/modules tests '$(REAL)' | cut -d ' ' -f 1 | uniq); \
	run() { (set -x; $(GO) test -vet=off -count=$(COUNT) -timeout $(TIMEOUT) -p $(PARALLEL) -run '$(REAL)' $(TESTFLAGS) "$$@"); }; \
	run $$(grep -E '$(DRIVERS)' <<<"$$packages"); \
	run $(RACE) $$(grep -vE '$(DRIVERS)' <<<"$$packages")

.PHONY: servers
servers: export SERVERS := $(SERVERS)
servers: ## run conformance, rights and a handover on other Redis and Valkey, from Debian's suites (SERVERS=valkey-8)
	@.ci/on-servers

.PHONY: sim
sim: ## simulate elections under load, and under faults: SIMRUNS=24 seeds from SIMSEED=1 on, and one that SIMALSO=name gives
	@$(GO) test -v -vet=off -count=1 -timeout 24h -run 'TestSimulation' $(TESTFLAGS) ./elector/proof/internal/simtest \
		-sim.first=$(SIMSEED) -sim.runs=$(SIMRUNS) -sim.also='$(SIMALSO)'

.PHONY: mutants
mutants: ## make each deliberate bug once, and show which test notices it (MUTANT=regexp; MUTANTS_NEAR=commit: at most 20, about what changed since)
	@$(GO) test -v -vet=off -count=1 -timeout 60m -run 'TestMutants$$' ./elector/proof/internal/mutants -mutants '$(or $(MUTANT),.)' -near '$(MUTANTS_NEAR)'

.PHONY: claims
claims: ## write bin/claims.md (what is promised, its tests and bugs), the schema of JSON and the incidents
	@mkdir -p bin
	@$(GO) test -count=1 -run 'TestClaims$$' ./elector/proof/internal/mutants -out $(CURDIR)/bin/claims.md
	@$(GO) test -count=1 -run 'TestSchema$$|TestIncidentsAreListed$$' ./cmd/mandate -update

# Never with -race or beside another package: that would measure the neighbour.
.PHONY: bench
bench: ## run the benchmarks (BENCH=regexp COUNT=n), on a real redis-server where one is needed
	$(which-redis)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) -timeout 30m -p 1 $$(.ci/modules tests ^Benchmark | cut -d ' ' -f 1 | uniq)

# The cells mostly wait: twelve at once are a modest load for two cores.
.PHONY: compare
compare: ## measure what faults cost with mandate and its peers, into docs/generated/compare.md: 50 minutes (ROUNDS=5)
	$(BUILD)
	cd elector/proof/compare && MANDATE_TEST_REQUIRE_REDIS=1 GOWORK=off GOFLAGS=-mod=mod $(GO) test -count=1 -timeout 2h -parallel 12 -args \
		-mandate $(CURDIR)/bin/mandate -revision $(VERSION) -rounds $(ROUNDS) $(COMPARE)

.PHONY: fuzz
fuzz: ## fuzz every Fuzz target (FUZZTIME=1m each; FUZZ=./elector only those of packages there)
	@.ci/fuzz $(FUZZTIME) '$(FUZZ)'

.PHONY: model
model: ## check the model of the fencing tokens with spin, and that its mutants are caught
	@docs/model/check.sh

.PHONY: nightly
nightly: ## everything that is long or random: hours
	.ci/modules each $(GO) test $(RACE) -shuffle=on -count=1 -timeout 2h -p $(PARALLEL) $(TESTFLAGS) ./...
	$(MAKE) sim SIMSEED=$$(date +%s) SIMRUNS=1000
	CALENDAR_SEED=$$(date +%s) CALENDAR_DAYS=3000 $(GO) test -count=1 -v -run Storm -timeout 1h ./elector/schedule
	$(MAKE) mutants
	$(MAKE) servers SERVERS=.
	$(MAKE) fuzz
	$(MAKE) model
	$(MAKE) systems
	$(MAKE) redsync
	$(MAKE) compare ROUNDS=1 COMPARE=

# The voting store must work with the newest redsync too, not just with the one in go.mod: users get the newest that any
# of their modules asks for. A version that can't be had is passed over.
.PHONY: redsync
redsync: ## test the voting store with the newest redsync that can be had
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; export GOWORK=off GOFLAGS="$$($(GO) env GOFLAGS) -modfile=$$dir/go.mod"; \
	for version in $$(GOFLAGS='' $(GO) list -m -versions github.com/go-redsync/redsync/v4 | tr ' ' '\n' | tail -n +2 | tac); do \
		cp go.mod go.sum "$$dir"; \
		if $(GO) get github.com/go-redsync/redsync/v4@$$version; then (set -x; $(GO) test -count=1 ./elector/internal/quorum); exit; fi; \
	done; \
	echo '>>> no version of redsync resolves' >&2; exit 1

.PHONY: api
api: ## compare the exported API with the last tag: what breaks callers must be in CHANGELOG.md
	@.ci/api

.PHONY: lint
lint: ## the sums of .ci/budget, gofmt, golangci-lint (installed when missing), go mod tidy -diff
	@.ci/lint

# Only what people install has code of its own for other systems. It is compiled to be read, not to be fast.
.PHONY: systems
systems: ## vet what people install for macOS and Windows (3 minutes with empty caches)
	for os in darwin windows; do GOOS=$$os $(GO) vet -gcflags=all='-N -l' $$(.ci/modules published | sed 's,$$,/...,'); done

.PHONY: build
build: ## build the static binary bin/mandate
	$(BUILD)

.PHONY: image
image: ## build the container image mandate:dev with docker (make release packs one without it)
	docker build -f cmd/mandate/Dockerfile --build-arg VERSION=$(VERSION) -t mandate:dev .

.PHONY: release
release: ## build the release VERSION=v0.1.0 into dist/ and tag it (see CONTRIBUTING.md)
	@.ci/release $(if $(filter command,$(origin VERSION)),$(VERSION))

.PHONY: check
check: test lint build ## what a change must pass: test, lint, build

.PHONY: tidy
tidy: ## bring go.mod and go.sum of every module up to date
	@.ci/modules tidy

.PHONY: clean
clean: ## remove what was built (tools and servers stay: ~/.cache/mandate)
	rm -rf bin dist coverage*
	find . -path ./.git -prune -o -type f \( -name '*.test' -o -name '*.out' \) -exec rm -f {} +
