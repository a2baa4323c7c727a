# Everything a developer or CI does goes through here, so that a green run on a
# laptop and a green run in CI mean the same.

SHELL       := bash
# -e and pipefail: a recipe with a pipe or a loop must not hide a failure.
.SHELLFLAGS := -eu -o pipefail -c
# One shell per recipe: a recipe reads as the script it is.
.ONESHELL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

GO        ?= go
export GO # the scripts in .ci run it, too
FUZZTIME  ?= 10s
CHAOSTIME ?= 20s
CHAOSSEED ?=
CHAOSREPORT ?=
MUTANT    ?=
SERVERS   ?=
SIMMINUTES ?= 1
SIMRUNS    ?= 1000000
SIMSEED    ?= 0
SIMREPORT  ?=
COUNT     ?= 1
BENCH     ?= .
TIMEOUT   ?= 20m
TESTFLAGS ?=

# Two packages at once, also on a big machine: several of them start real Redis
# servers and assert timing, and more neighbours would only make them wait.
PARALLEL ?= 2

# Tests of these names talk to a real redis-server (see CONTRIBUTING.md).
INTEGRATION ?= Real|Integration|Conformance

# One version for everyone: another one knows other rules, and lint would be
# green here and red there. The version is in the file's name, so that a new
# version is a new file.
GOLANGCI_VERSION := v2.15.0
GOLANGCI         := .bin/golangci-lint-$(GOLANGCI_VERSION)

# Lazy (=): asked of git only by the target that needs it.
VERSION = $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# In CI a test that skips because a server is missing would be a hole that nobody
# sees: the tests read these variables and fail instead of skipping.
ifeq ($(CI),true)
export MANDATE_TEST_REQUIRE_REDIS := 1
export MANDATE_TEST_REQUIRE_POSTGRES := 1
export MANDATE_TEST_REQUIRE_MARIADB := 1
export MANDATE_TEST_REQUIRE_CHROMIUM := 1
export MANDATE_TEST_REQUIRE_PROMTOOL := 1
endif

# --- fragments of recipes ----------------------------------------------------

# Sets $$race. The race detector needs cgo and a working C compiler; a machine
# with Go alone must still be able to run the tests.
define find_race
race=-race
if [ "$$($(GO) env CGO_ENABLED)" != 1 ] || \
   ! printf '#include <stdlib.h>\n' | $$($(GO) env CC) -x c -fsyntax-only - >/dev/null 2>&1; then
	race=
	echo '>>> no working C compiler: running WITHOUT the race detector (install gcc and libc6-dev)'
fi
endef

# Says which of the two test runs this is going to be.
define say_redis
server=$${MANDATE_TEST_REDIS_SERVER:-redis-server}
if command -v "$$server" >/dev/null; then
	echo ">>> real redis-server found ($$("$$server" --version | sed -n 's/ *server \(v=[^ ]*\).*/ \1/p')): the real-server tests RUN"
elif [ "$${MANDATE_TEST_REQUIRE_REDIS:-}" = 1 ]; then
	echo '>>> no redis-server on PATH, and it is required here (CI=true): install redis-server' >&2
	exit 1
else
	echo '>>> no redis-server on PATH: real-server tests are SKIPPED: install redis-server'
fi
endef

# $(call list_tests,REGEXP,FLAGS) prints "package name" of what matches. Go
# prints the names first and the package's "ok" line after them.
list_tests = $(GO) test $(2) -list '$(1)' ./... | \
	awk '/^(Test|Fuzz|Benchmark)/ { name[++n] = $$1 } \
	     /^ok/ { for (i = 1; i <= n; i++) print $$2, name[i]; n = 0 } \
	     /^(FAIL|panic)/ { print > "/dev/stderr" }'

# --- targets -----------------------------------------------------------------

.PHONY: help
help: ## print this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: ## watch an election on your screen: no Redis, no set-up
	@$(GO) run ./cmd/mandate demo

.PHONY: poller
poller: ## watch the queue-feeding example, its leaders hung and killed: no server needed
	@$(GO) run ./examples/poller

.PHONY: up
up: ## start the poller example in containers: 3 Redis, PostgreSQL, 3 workers, a producer
	@if ! docker compose version >/dev/null 2>&1; then
		echo 'make up needs docker with its compose plugin. Without it: make poller' >&2
		exit 1
	fi
	docker compose up --build --detach --wait
	echo 'who leads:  docker compose exec worker /mandate status poller'
	echo 'all well:   docker compose exec worker /poller verify'

.PHONY: down
down: ## stop the containers of `make up`, and forget their data
	@docker compose down --volumes --remove-orphans

.PHONY: test
test: ## run all tests with the race detector, on a real redis-server where there is one
	@$(say_redis)
	$(find_race)
	set -x
	.ci/gotest $$race -shuffle=on -timeout $(TIMEOUT) -p $(PARALLEL) $(TESTFLAGS) ./...

.PHONY: integration
integration: export MANDATE_TEST_REQUIRE_REDIS := 1
integration: ## run only the tests on a real redis-server (required here)
	@$(say_redis)
	$(find_race)
	pkgs=$$($(call list_tests,$(INTEGRATION),$$race) | awk '/ Test/ { print $$1 }' | sort -u)
	if [ -z "$$pkgs" ]; then
		echo 'no test is named like $(INTEGRATION)' >&2
		exit 1
	fi
	set -x
	.ci/gotest $$race -count=$(COUNT) -timeout $(TIMEOUT) -p 1 -run '$(INTEGRATION)' $(TESTFLAGS) $$pkgs

# CI runs the short form as a part of `make test`.
.PHONY: chaos
chaos: export MANDATE_TEST_REQUIRE_REDIS := 1
chaos: export CHAOSTIME := $(CHAOSTIME)
chaos: export CHAOSSEED := $(CHAOSSEED)
chaos: export CHAOSREPORT := $(abspath $(CHAOSREPORT))
chaos: ## break real elections on purpose for a while, and prove the journal (CHAOSTIME=20s CHAOSSEED=n)
	@$(say_redis)
	$(find_race)
	set -x
	$(GO) test $$race -v -count=$(COUNT) -timeout 24h -p 1 -run Chaos $(TESTFLAGS) ./elector/internal/chaos ./cmd/mandate

.PHONY: servers
servers: export SERVERS := $(SERVERS)
servers: ## run conformance, integration and a short chaos on other Redis and Valkey, from Debian's suites (SERVERS=valkey-8)
	@.ci/on-servers

.PHONY: sim
sim: ## simulate elections under faults for SIMMINUTES=1, at most SIMRUNS=n seeds from SIMSEED=n on (0: new ones)
	@$(GO) test -v -count=1 -timeout 24h -run 'TestSimulation$$' $(TESTFLAGS) ./elector/internal/simtest \
		-sim.first=$(SIMSEED) -sim.runs=$(SIMRUNS) -sim.for=$$(awk 'BEGIN { print int($(SIMMINUTES) * 60) }')s \
		-sim.report=$(abspath $(SIMREPORT))

.PHONY: mutants
mutants: ## make each known mistake once, and show which test notices (MUTANT=regexp TESTFLAGS=-short), 4 minutes
	@MANDATE_MUTANTS=1 $(GO) test -v -count=1 -timeout 30m -run 'TestMutants/(none|$(MUTANT))' $(TESTFLAGS) ./elector/internal/mutants |
		awk '!/^ *(=== |--- PASS)/'

.PHONY: bench
bench: ## run the benchmarks (BENCH=regexp COUNT=n), on a real redis-server where one is needed
	@$(say_redis)
	pkgs=$$($(call list_tests,^Benchmark) | awk '{ print $$1 }' | sort -u)
	if [ -z "$$pkgs" ]; then
		echo 'no benchmarks'
		exit 0
	fi
	# Never with -race or beside another package: that would measure the neighbour.
	set -x
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) -timeout 30m -p 1 $$pkgs

.PHONY: fuzz
fuzz: ## fuzz every Fuzz target for a short while (FUZZTIME=10s)
	@targets=$$($(call list_tests,^Fuzz))
	if [ -z "$$targets" ]; then
		echo 'no fuzz targets'
		exit 0
	fi
	log=$$(mktemp)
	trap 'rm -f "$$log"' EXIT
	failed=0
	while read -r pkg name; do
		echo ">>> fuzz $$name ($${pkg}) for $(FUZZTIME)"
		if $(GO) test -run '^$$' -fuzz "^$${name}\$$" -fuzztime $(FUZZTIME) "$$pkg" </dev/null 2>&1 | tee "$$log"; then
			continue
		fi
		# Go before 1.27 now and then reports its own -fuzztime as a failure
		# (go.dev/issue/75804). A real finding has an input written beside it.
		if grep -q '^ *context deadline exceeded$$' "$$log" &&
		   ! grep -qE 'Failing input written|^panic|_test\.go:|\[build failed\]' "$$log"; then
			echo ">>> $$name: only the fuzzer's own deadline, nothing found"
			continue
		fi
		failed=1
	done <<<"$$targets"
	exit $$failed

.PHONY: model
model: ## check the model of the fencing tokens with spin, and that mutants of it are caught
	@docs/model/check.sh

.PHONY: lint
lint: ## gofmt, go vet, golangci-lint (installed when missing), go mod tidy -diff
	@echo '>>> gofmt'
	# Untracked files count too, so that lint before `git add` says the same as after.
	bad=$$(git ls-files -z --cached --others --exclude-standard -- '*.go' |
		while IFS= read -r -d '' f; do if [ -f "$$f" ]; then printf '%s\0' "$$f"; fi; done |
		xargs -0 -r gofmt -l -s)
	if [ -n "$$bad" ]; then
		printf 'not formatted (gofmt -s -w FILE):\n%s\n' "$$bad" >&2
		exit 1
	fi
	echo '>>> go vet'
	$(GO) vet ./...
	linter=golangci-lint
	if [ "$$($$linter version --short 2>/dev/null || true)" != "$(GOLANGCI_VERSION:v%=%)" ]; then
		linter=$(GOLANGCI)
		if [ ! -x $$linter ]; then
			echo '>>> installing golangci-lint $(GOLANGCI_VERSION) into .bin (about a minute)'
			GOFLAGS= GOBIN="$$PWD/.bin" $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
			mv .bin/golangci-lint $$linter
		fi
	fi
	echo ">>> golangci-lint $(GOLANGCI_VERSION)"
	$$linter run ./...
	echo '>>> go mod tidy -diff'
	$(GO) mod tidy -diff

.PHONY: build
build: ## build the static binary bin/mandate
	@set -x
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/mandate ./cmd/mandate

.PHONY: check
check: lint test build ## all that a change must pass: lint, test, build

.PHONY: tidy
tidy: ## bring go.mod and go.sum up to date
	$(GO) mod tidy

.PHONY: clean
clean: ## remove what was built (the linter in .bin stays: it takes a minute to install)
	rm -rf bin coverage*
	find . -path ./.git -prune -o -path ./.bin -prune -o -type f \( -name '*.test' -o -name '*.out' \) -exec rm -f {} +
