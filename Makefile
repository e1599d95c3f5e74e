# Everything that is done with this repository. Only Go, make and git are needed;
# the race detector also needs a C compiler, the image Docker.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Packages whose code starts goroutines: what the race detector runs over.
RACE    ?= ./cluster/... ./transport/... ./client/... ./cmd/... ./snapshot/...
# How long each fuzz target runs.
FUZZTIME ?= 10s
# The seed of `make sim`: a fresh one unless given, printed either way.
ifndef SEED
SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
endif
# How long `make chaos` breaks things, and with which seed.
CHAOS   ?= 60s
# How often each benchmark runs.
COUNT   ?= 1
BENCH   ?= .
BENCHSTAT := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

# $(call there,FOLDER,WHAT): goes on only where the folder holds Go sources.
there = if ! ls $(1)/*.go >/dev/null 2>&1; then echo "$(2): not run, $(1) is not there"; exit 0; fi

.PHONY: help build test race fuzz sim e2e chaos bench bench-compare demo image generate tidy fmt clean ci

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## bin/rota, one static binary
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/rota ./cmd/rota

test: ## vet and all tests
	$(GO) vet ./...
	$(GO) test -timeout 8m ./...

race: ## the tests of packages with goroutines, under the race detector (needs a C compiler)
	@if ! command -v "$$($(GO) env CC)" >/dev/null; then echo "race: not run, the race detector needs a C compiler"; exit 0; fi; \
	set -x; CGO_ENABLED=1 $(GO) test -race -timeout 8m $(RACE)

fuzz: ## each fuzz target for FUZZTIME=10s
	@$(GO) test -list '^Fuzz' ./... | awk '/^Fuzz/ { names[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, names[i]; n = 0 }' \
	| while read -r package name; do \
	  echo "fuzz $$package $$name"; \
	  $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x "$$package" </dev/null; \
	done

sim: ## simulate whole lives: the fixed seeds, then 300 fresh ones (SEED=n repeats them)
	@$(call there,test/sim,sim); \
	$(GO) test -count=1 ./test/sim/; \
	echo "sim: 300 fresh seeds from $(SEED); repeat with: make sim SEED=$(SEED)"; \
	ROTA_SIM_SEEDS=300 ROTA_SIM_FROM=$(SEED) $(GO) test -count=1 -timeout 10m ./test/sim/

e2e: ## every test over real processes, the long ones too (make test runs a core of them)
	ROTA_E2E=full $(GO) test -count=1 -timeout 10m ./test/e2e/

chaos: ## real processes, killed, stopped and cut off for CHAOS=60s (SEED=n repeats the faults)
	@$(call there,test/jepsen-lite,chaos); \
	echo "chaos: seed $(SEED); repeat with: make chaos SEED=$(SEED) CHAOS=$(CHAOS)"; \
	ROTA_CHAOS=$(CHAOS) ROTA_CHAOS_SEED=$(SEED) $(GO) test -count=1 -timeout 20m -v ./test/jepsen-lite/

bench: ## benchmarks (BENCH=pattern COUNT=n)
	@$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./...

bench-compare: ## benchmarks of BASE=revision against this tree, by benchstat
	@test -n "$(BASE)" || { echo "usage: make bench-compare BASE=revision [BENCH=pattern] [COUNT=6]"; exit 2; }; \
	dir=$$(mktemp -d); trap 'git worktree remove --force "$$dir/base" 2>/dev/null || true; rm -rf "$$dir"' EXIT; \
	git worktree add --quiet --detach "$$dir/base" "$(BASE)"; \
	count=$(COUNT); [ "$$count" -gt 1 ] || count=6; \
	(cd "$$dir/base" && $(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count "$$count" ./...) >"$$dir/base.txt"; \
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count "$$count" ./... >"$$dir/here.txt"; \
	$(GO) run $(BENCHSTAT) "$$dir/base.txt" "$$dir/here.txt"

demo: build ## build, then show a cluster losing its leader
	bin/rota demo

image: ## the image rota:dev, from a static binary (needs Docker)
	mkdir -p dist/image
	CGO_ENABLED=0 GOOS=linux $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o dist/image/rota ./cmd/rota
	docker build -t rota:dev -f Dockerfile dist/image

generate: ## write all .pb.go files anew
	$(GO) run ./internal/generate

tidy: ## the rules of the house alone (part of make test)
	$(GO) test -count=1 ./internal/tidy

fmt: ## format all sources
	gofmt -l -w .

clean: ## remove what builds leave behind
	rm -rf bin dist
	find . -name '*.test' -not -path './.git/*' -delete

ci: ## what must pass before a change lands
	.ci/run
