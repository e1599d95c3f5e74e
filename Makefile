# Everything that is done with this repository. Only Go, make and git are needed;
# the race detector also needs a C compiler, the image Docker.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO      ?= go
# One way of compiling for all but the race detector: what make build, the tests and the binaries
# that these start have in common is compiled once, which on a new machine takes most of their time.
export CGO_ENABLED := 0
export GOFLAGS     := -trimpath $(GOFLAGS)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Packages whose code starts goroutines, in thirds: what the race detector runs over, or the third TURN=0,
# 1 or 2 of them.
RACE0   := ./cluster/...
RACE1   := ./transport/... ./cmd/...
RACE2   := ./client/... ./snapshot/... ./internal/loadgen ./test/rig
TURN    ?=
RACE    ?= $(if $(TURN),$(RACE$(TURN)),$(RACE0) $(RACE1) $(RACE2))
# What `make test` leaves out, as a pattern: .ci/run names what it runs by itself.
LEAVE   ?= ^$$
# How long each fuzz target runs.
FUZZTIME ?= 10s
# The seed of `make sim`: a fresh one unless given, printed either way.
ifndef SEED
SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
endif
# How many fresh lives `make sim` lives through.
SEEDS   ?= 2000
# How much of each test over real processes `make e2e` runs: full, or whole.
E2E     ?= full
# How much virtual time `make virtual` lives through.
VIRTUAL ?= 10h
# How long `make chaos` and `make chaos-docker` break things, and with which seed.
CHAOS   ?= 60s
# How often `make crash` has a node die at each point.
CRASH   ?= 1
# How often `make bench` and its kin make each measurement.
REPEAT  ?= 5
# The queues that `make bench-peers` measures beside rota.
PEERS   ?= nats,river,river-majority,asynq,beanstalkd
PEERJOBS = cd test/bench/peerjobs && $(GO) build -o ../../../bin/peerjobs . && $(GO) build -o ../../../bin/nats-server github.com/nats-io/nats-server/v2
# Debian's PostgreSQL has its programs beside PATH.
POSTGRES = export PATH="$$PATH:$$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)"; command -v initdb >/dev/null || { echo "initdb is missing: make setup-bench installs it" >&2; exit 1; }
# The round trips between regions, in milliseconds, that `make bench-regions` measures at.
RTTS ?= 0,10,40,80
# How large `make bench-scale` lets things get: jobs that wait, workers.
PENDING ?= 1000,10000,100000,1000000,2000000
# Jobs that wait at one server in `make bench-alone`: the last need 8 GiB.
ALONE   ?= 1000,10000,100000,1000000,10000000
WORKERS ?= 1,10,100,1000,10000
# Workers that wait in `make bench-rest`.
IDLE ?= 1,1000,10000
# Where the benches write what they saw.
TABLES := docs/internals/performance/tables.md
# How long `make bench-soak` goes on, and the jobs before it, which fill what is
# remembered of ended ones.
SOAK    ?= 1h
WARM    ?= 1000000
# The first revision that ran: what figures are compared with unless BASE is given.
SPINE   := 1e4f83b
# How often each benchmark runs.
COUNT   ?= 1
BENCH   ?= .
# Which packages `make bench-pieces` and `make bench-compare` look at.
PKG     ?= ./...
# The linters, all in one: built from its own module, so that go.mod does not grow.
LINT    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
BENCHSTAT := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

# $(call there,FOLDER,WHAT): goes on only where the folder holds Go sources.
there = if ! ls $(1)/*.go >/dev/null 2>&1; then echo "$(2): not run, $(1) is not there"; exit 0; fi

# What x86-64-v3 is by the names of /proc/cpuinfo.
V3 := avx avx2 bmi1 bmi2 f16c fma abm movbe

.PHONY: help build docs test golden-builds race fuzz sim virtual e2e hostile compat setup-compat limits-report chaos chaos-docker crash bite outbox-test upgrade-test bench bench-against bench-nats bench-peers bench-locked bench-profile bench-scale bench-alone bench-rest bench-regions bench-overload bench-soak bench-pieces bench-compare demo packages packages-test helm-test image generate tzdata tzdata-check tidy lint cover fmt clean ci conformance openapi-test bench-http sdk-test sdk-test-python sdk-test-typescript console console-test console-budgets console-pictures findings check hooks setup-bench long

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## bin/rota, one static binary
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/rota ./cmd/rota

test: ## vet, and the tests of every package (of long ones a core)
	$(GO) vet ./...
	@packages=$$($(GO) list ./... | grep -vE '$(LEAVE)'); set -x; $(GO) test -vet=off -parallel 4 -timeout 8m $$packages

golden-builds: ## the golden log on every processor that this machine can be: digests equal to the bit
	@if [ "$$($(GO) env GOHOSTARCH)" != amd64 ]; then echo "golden v1: not run, this is no amd64"; exit 0; fi; \
	set -x; GOARCH=amd64 GOAMD64=v1 $(GO) test -count=1 -vet=off -run Golden ./fsm
	@if [ "$$($(GO) env GOHOSTARCH)" != amd64 ]; then echo "golden v3: not run, this is no amd64"; exit 0; fi; \
	for flag in $(V3); do grep -qw "$$flag" /proc/cpuinfo 2>/dev/null || { echo "golden v3: not run, the processor lacks $$flag"; exit 0; }; done; \
	set -x; GOARCH=amd64 GOAMD64=v3 $(GO) test -count=1 -vet=off -run Golden ./fsm
	@run=$$(command -v qemu-aarch64 || command -v qemu-aarch64-static || true); \
	if [ "$$($(GO) env GOHOSTARCH)" = arm64 ]; then run=; elif [ -z "$$run" ]; then echo "golden arm64: not run, qemu-aarch64 is not installed"; exit 0; fi; \
	set -x; CGO_ENABLED=0 GOARCH=arm64 $(GO) test -count=1 -vet=off $${run:+-exec "$$run"} -run Golden ./fsm

race: ## the tests of packages with goroutines, under the race detector (needs a C compiler)
	@if ! command -v "$$($(GO) env CC)" >/dev/null; then echo "race: not run, the race detector needs a C compiler"; exit 0; fi; \
	set -x; CGO_ENABLED=1 $(GO) test -race -parallel 4 -timeout 8m $(RACE)

fuzz: ## each fuzz target for FUZZTIME=10s, two at a time
	@GO="$(GO)" FUZZTIME=$(FUZZTIME) .ci/fuzz

sim: ## simulate whole lives: attacks and fixed seeds, then SEEDS=2000 fresh ones (SEED=n repeats them)
	@$(call there,test/sim,sim); \
	$(GO) test -count=1 -timeout 30m ./test/sim/; \
	echo "sim: $(SEEDS) fresh seeds from $(SEED); repeat with: make sim SEED=$(SEED) SEEDS=$(SEEDS)"; \
	ROTA_SIM_SEEDS=$(SEEDS) ROTA_SIM_FROM=$(SEED) $(GO) test -count=1 -timeout 30m -run '^Test(Limit)?Seeds$$' -v ./test/sim/ | grep -v '^=== '

virtual: ## real clusters in virtual time: VIRTUAL=10h of faults (SEED=n repeats the schedule, SHORT=1 leaves out the tests that take minutes)
	@echo "virtual: $(VIRTUAL) from seed $(SEED); repeat with: make virtual SEED=$(SEED) VIRTUAL=$(VIRTUAL)"; \
	ROTA_VIRTUAL=$(VIRTUAL) ROTA_VIRTUAL_SEED=$(SEED) $(GO) test -count=1 -timeout 30m $(if $(SHORT),-short) -v ./test/virtual/ | grep -v '^=== '

e2e: ## every test over real processes, the long ones too (make test runs a core of them; E2E=whole: in full amounts)
	@command -v initdb >/dev/null || echo "e2e: TestOutbox is LEFT OUT: there is no PostgreSQL; make setup-bench installs it"
	ROTA_E2E=$(E2E) $(GO) test -count=1 -vet=off -timeout $(if $(filter whole,$(E2E)),60m,12m) -parallel 3 ./test/e2e/

hostile: build ## play those who may not against real processes; then with the doors open, which must be noticed
	$(GO) run ./test/hostile -rota bin/rota
	$(GO) run ./test/hostile -rota bin/rota -plant

compat: build ## rota with software of others, installed in a cache: writes docs/compatibility.md (ONLY=groups, tools or quick; outside CI)
	@$(GO) run ./test/compat -rota bin/rota -only "$(ONLY)" -write docs/compatibility.md

setup-compat: build ## install what make compat runs, below the user's cache directory (ONLY=groups, tools or quick)
	@$(GO) run ./test/compat -rota bin/rota -only "$(ONLY)" -install

limits-report: build ## limits of keys on rota and on other job systems under faults: writes docs/limits-under-failover.md (ONLY=systems; outside CI)
	@$(POSTGRES); for program in node npm python3 redis-server; do command -v $$program >/dev/null || { \
	echo "$$program is missing: make setup-bench installs redis-server, apt-get install nodejs npm python3-venv the others" >&2; exit 1; }; done; \
	ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1 || { echo "libfaketime is missing: apt-get install libfaketime" >&2; exit 1; }; \
	$(GO) run ./test/limits -rota bin/rota -only "$(ONLY)" -write docs/limits-under-failover.md

chaos: ## real processes, killed, stopped, cut off for CHAOS=60s, and lost for good (SEED=n repeats the faults)
	@$(call there,test/jepsen-lite,chaos); \
	echo "chaos: seed $(SEED); repeat with: make chaos SEED=$(SEED) CHAOS=$(CHAOS)"; \
	ROTA_CHAOS=$(CHAOS) ROTA_CHAOS_SEED=$(SEED) $(GO) test -count=1 -timeout 20m -p 1 -v ./test/jepsen-lite/...

chaos-docker: ## containers killed, paused and disconnected for CHAOS=60s (needs Docker; SEED=n repeats the faults)
	@$(call there,test/jepsen-lite,chaos-docker); \
	echo "chaos-docker: seed $(SEED); repeat with: make chaos-docker SEED=$(SEED) CHAOS=$(CHAOS)"; \
	ROTA_CHAOS_DOCKER=$(CHAOS) ROTA_CHAOS_SEED=$(SEED) $(GO) test -count=1 -timeout 20m -run '^TestContainers$$' -v ./test/jepsen-lite/

crash: ## real processes that kill themselves at every failpoint, in each role (CRASH=n: so often)
	ROTA_CRASH=$(CRASH) $(GO) test -count=1 -timeout 5h -v ./test/crash/ | grep -v '^=== '

bite: ## plant bugs, and see that each is caught (ROTATE=3 SEED=n: only so many, in turn)
	$(GO) run ./test/bite $(if $(ROTATE),--rotate $(ROTATE) --seed $(SEED))

upgrade-test: ## roll a loaded cluster from the newest release to this code node by node, back from the middle, and on to newer rules
	ROTA_UPGRADE=1 $(GO) test -count=1 -timeout 20m -v ./test/upgrade | grep -v '^=== '

outbox-test: ## the outbox against a PostgreSQL of its own, which make setup-bench installs
	@$(POSTGRES); ROTA_OUTBOX=1 $(GO) test -count=1 -v -run '^TestOutbox' ./test/e2e

bench: build ## measure a cluster of three on this machine and write the table of docs/internals/performance/tables.md (REPEAT=n)
	@$(GO) run ./test/bench -rota bin/rota -repeat $(REPEAT) -write $(TABLES)

# $(call older,REVISION,FLAGS): measures the binary of an older revision in turns with this one's.
older = dir=$$(mktemp -d); trap 'git worktree remove --force "$$dir/base" 2>/dev/null || true; rm -rf "$$dir"' EXIT; \
	git worktree add --quiet --detach "$$dir/base" "$(1)"; \
	(cd "$$dir/base" && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(1)' -o "$$dir/rota" ./cmd/rota); \
	$(GO) run ./test/bench -rota bin/rota -repeat $(REPEAT) -against "$$dir/rota" -write $(TABLES) $(2)

bench-against: build ## the same of BASE=revision (the first that ran) and this tree, in turns, with ratios
	@$(call older,$(or $(BASE),$(SPINE)),)

bench-nats: build ## the same load on NATS JetStream, synced always, and on this tree, in turns, with ratios
	$(PEERJOBS)
	@PATH="$(CURDIR)/bin:$$PATH" $(GO) run ./test/bench -rota bin/rota -repeat $(REPEAT) -nats -peerjobs bin/peerjobs -write $(TABLES)

bench-peers: build ## the same load on the queues of PEERS and on this tree, in turns (needs make setup-bench)
	$(PEERJOBS)
	@$(POSTGRES); for peer in redis-server beanstalkd; do command -v $$peer >/dev/null || { echo "$$peer is missing: make setup-bench installs it" >&2; exit 1; }; done; \
	PATH="$(CURDIR)/bin:$$PATH" $(GO) run ./test/bench -rota bin/rota -repeat $(REPEAT) -most 30m -jobs 10000 -rates 200 -peers $(PEERS) -peerjobs bin/peerjobs -write $(TABLES)

bench-locked: build ## the same load with the doors open and locked, in turns: what tokens and rights cost, with ratios
	@$(GO) run ./test/bench -rota bin/rota -repeat $(REPEAT) -locked -write $(TABLES)

bench-http: build ## submissions over HTTP beside gRPC, with BASE=revision of both, then FOLLOWERS=1000 of events (REPEAT=n)
	@$(if $(BASE),$(call older,$(BASE),-http),$(GO) run ./test/bench -rota bin/rota -repeat $(REPEAT) -http -write $(TABLES))
	@$(GO) run ./test/bench -rota bin/rota -followers $(or $(FOLLOWERS),1000)

bench-profile: build ## where the servers' CPU goes, of BASE=revision (the first that ran) and of this tree
	@$(call older,$(or $(BASE),$(SPINE)),-profile)

bench-scale: build ## curves over pending jobs and workers, many queues and tenants, restarts (PENDING=… WORKERS=…)
	@$(GO) run ./test/bench -rota bin/rota -scale -pending $(PENDING) -workers $(WORKERS) -pictures docs/internals/performance \
		-write $(TABLES)

bench-alone: build ## one server beside ever more pending jobs: its memory and its start (ALONE=…)
	@$(GO) run ./test/bench -rota bin/rota -alone -pending $(ALONE) -pictures docs/internals/performance -write $(TABLES)

bench-rest: build ## servers that have little to do or nothing, beside idle workers, and the start of an empty one (BASE=revision: of both)
	@$(if $(BASE),$(call older,$(BASE),-rest -workers $(IDLE)),$(GO) run ./test/bench -rota bin/rota -repeat $(REPEAT) -rest -workers $(IDLE) -write $(TABLES))

bench-regions: build ## five nodes in two and three regions: latency, throughput and failover by the round trip between them (root; RTTS=ms,…)
	@$(GO) run ./test/bench -rota bin/rota -regions -jobs 5000 -seconds 5 -rtts $(RTTS) -write docs/operations/regions.md

bench-overload: build ## three times what three servers on one processor can do, and a verdict
	@$(GO) run ./test/bench -rota bin/rota -overload -warm 300000 -memory 2048 -write $(TABLES)

bench-soak: build ## SOAK=1h at a fixed rate, and whether memory, goroutines or files grow (WARM=jobs before it)
	@$(GO) run ./test/bench -rota bin/rota -soak $(SOAK) -warm $(WARM) -pictures docs/internals/performance -write $(TABLES)

bench-pieces: ## Go benchmarks (BENCH=pattern PKG=./fsm COUNT=n)
	@$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(PKG)

bench-compare: ## benchmarks of BASE=revision against this tree, by benchstat
	@test -n "$(BASE)" || { echo "usage: make bench-compare BASE=revision [BENCH=pattern] [PKG=./fsm] [COUNT=6]"; exit 2; }; \
	dir=$$(mktemp -d); trap 'git worktree remove --force "$$dir/base" 2>/dev/null || true; rm -rf "$$dir"' EXIT; \
	git worktree add --quiet --detach "$$dir/base" "$(BASE)"; \
	count=$(COUNT); [ "$$count" -gt 1 ] || count=6; \
	(cd "$$dir/base" && $(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count "$$count" $(PKG)) >"$$dir/base.txt"; \
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count "$$count" $(PKG) >"$$dir/here.txt"; \
	$(GO) run $(BENCHSTAT) "$$dir/base.txt" "$$dir/here.txt"

conformance: build ## the same scenarios in Go, Python and TypeScript, with the leader killed and without (ROUNDS=n)
	.ci/conformance $(or $(ROUNDS),1)

openapi-test: build ## a cluster held to its OpenAPI description by schemathesis (SEED=n, MOST=45 seconds)
	.ci/openapi $(SEED) $(or $(MOST),45)

sdk-test: sdk-test-python sdk-test-typescript ## the client libraries of other languages, where those are installed

sdk-test-python: build
	@sdk/python/test.sh

sdk-test-typescript: build
	@sdk/typescript/test.sh

console: ## the web console's files anew, console/dist, which are committed (needs Node with npm)
	console/install.sh
	cd console && npm run --silent build

console-test: build ## the console: rebuilt and compared, its tests, and a browser's where there is one (LONG=1: in full amounts; PICTURES=dir)
	@LONG=$(LONG) PICTURES=$(abspath $(PICTURES)) console/test.sh

console-budgets: build ## measure what the console's design allows, and write it into docs/internals/console.md (HEAP_MINUTES=60)
	@HEAP_MINUTES=$(or $(HEAP_MINUTES),2) console/test.sh budgets

console-pictures: build ## make the pictures of README.md and docs/guides/console.md anew, into docs/pictures
	@PICTURES_DOCS=$(abspath docs/pictures) console/test.sh pictures

demo: build ## build, then show a cluster losing its leader
	bin/rota demo

CA_ROOTS ?= /etc/ssl/certs/ca-certificates.crt

# The version that packages carry: that of the last line of RELEASES.
PACKAGED ?= $(shell awk '!/^\#/ && NF { v = $$1 } END { sub(/^v/, "", v); print v ? v : "0.0.0-dev" }' RELEASES)
packages: ## deb, rpm, apk and tarballs for amd64 and arm64 in dist/packages, with checksums and bills of materials (PACKAGED=version)
	cd deploy/packages && $(GO) run . -source ../.. -out ../../dist/packages -version $(PACKAGED) -date "$$(git log -1 --format=%ct)"

packages-test: ## packages built twice and compared; the deb installed, run, upgraded and purged where there is dpkg
	cd deploy/packages && $(GO) vet ./... && $(GO) test -count=1 -timeout 10m ./...

helm-test: ## the chart and manifests for Kubernetes: lint, golden files, types, and three nodes with the settings that it renders
	cd deploy/helm && $(GO) vet ./... && $(GO) test -count=1 -timeout 5m ./...

image: ## the image rota:dev, from a static binary (needs Docker)
	mkdir -p dist/image/data
	cp $(CA_ROOTS) dist/image/ca-certificates.crt
	CGO_ENABLED=0 GOOS=linux $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o dist/image/rota ./cmd/rota
	docker build -t rota:dev -f Dockerfile dist/image

generate: ## write all generated files anew
	$(GO) run ./internal/generate

tzdata: ## embed the release of time zone data that internal/cron/tzdata.txt names (needs pip and the network)
	rm -rf dist/tzdata && pip download -q --no-deps --require-hashes -r internal/cron/tzdata.txt -d dist/tzdata
	$(GO) run ./internal/cron/release dist/tzdata/*.whl
	python3 internal/cron/testdata/zones.py dist/tzdata/*.whl

tzdata-check: ## whether the embedded time zones are those of the newest release on PyPI (needs pip and the network)
	rm -rf dist/tzdata && pip download -q --no-deps -d dist/tzdata tzdata
	python3 internal/cron/testdata/zones.py --check dist/tzdata/*.whl

docs: ## write the pages of docs/reference that are made of the code: command line, metrics, policy, HTTP
	$(GO) test -count=1 ./cmd/rota -run TestReference -update
	$(GO) test -count=1 ./internal/tidy -run TestPolicyPage -update
	$(GO) test -count=1 ./transport/web -run TestReference -update

findings: ## surprises about public libraries, each run against pinned packages (needs network; outside CI)
	@for f in findings/*.sh; do [ "$$f" = findings/lib.sh ] && continue; echo "== $$f"; timeout 300 "$$f"; done

tidy: ## the rules of the house alone (part of make test)
	$(GO) test -count=1 ./internal/tidy

lint: ## the linters of .golangci.yml, and whether go.mod and go.sum hold what they should and no more
	$(GO) mod tidy -diff
	cd test/bench/peerjobs && $(GO) mod tidy -diff
	cd test/limits/peers/gopeers && $(GO) mod tidy -diff
	cd deploy/packages && $(GO) mod tidy -diff
	cd deploy/helm && $(GO) mod tidy -diff
	$(GO) run $(LINT) run ./...

cover: ## coverage by package, of all statements by all tests of PKG=./... (PKG=./fsm/...: by those alone)
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	of=$$($(GO) list ./... | grep -v /test/ | paste -sd, -); \
	$(GO) test -timeout 30m -coverpkg "$$of" -coverprofile "$$dir/profile" $(PKG) >"$$dir/log" || { cat "$$dir/log"; exit 1; }; \
	awk -f .ci/cover.awk "$$dir/profile" | sort

fmt: ## format all sources
	gofmt -l -w .

clean: ## remove what builds leave behind
	rm -rf bin dist
	find . -name '*.test' -not -path './.git/*' -delete

check: ## vet, linters and short tests of the packages that differ from BASE (where this branch left main), and the rules of the house
	@BASE=$(BASE) LINT=$(LINT) .ci/check

hooks: ## install make check as git's pre-push hook
	@.ci/check --hook

setup-bench: ## install what the other queues of make bench-peers and the tests of the outbox need, from Debian's packages (as root)
	apt-get install -y --no-install-recommends postgresql redis-server beanstalkd

ci: ## what must pass before a change lands
	.ci/run

long: ## what runs nightly, in up to three hours
	.ci/long
