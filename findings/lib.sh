# Shared by the scripts of this folder: a temporary directory, a Redis server on loopback, and the verdict.
# shellcheck shell=bash
set -euo pipefail

work=$(mktemp -d)
server=
cleanup() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  chmod -R u+w "$work" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
cd "$work"

# need PROGRAM PACKAGE: fail unless the program is installed; the package is Debian's.
need() {
  command -v "$1" >/dev/null || { echo "$1 is missing: install it first (Debian: $2)"; exit 2; }
}

# free_port prints a free port on loopback.
free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# redis starts a Redis server on loopback and sets REDIS_PORT.
redis() {
  need redis-server redis-server
  REDIS_PORT=$(free_port)
  export REDIS_PORT
  redis-server --port "$REDIS_PORT" --bind 127.0.0.1 --save '' --dir "$work" >redis.log 2>&1 &
  server=$!
  for _ in $(seq 100); do
    if redis-cli -p "$REDIS_PORT" ping >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  echo "redis-server did not start"; cat redis.log; exit 2
}

# pip PACKAGE==VERSION... installs into a virtual environment and puts it first in PATH.
pip() {
  python3 -m venv venv
  venv/bin/pip install --quiet --disable-pip-version-check "$@"
  PATH="$work/venv/bin:$PATH"
}

# npm_install PACKAGE@VERSION... installs into the temporary directory.
npm_install() {
  need npm npm
  npm init -y >/dev/null
  npm install --silent --no-audit --no-fund --ignore-scripts "$@" >/dev/null
}

# go_modules MODULE@VERSION... starts a module named finding with these requirements.
go_modules() {
  need go golang
  go mod init finding >/dev/null 2>&1
  go get "$@" >/dev/null 2>&1
}

# go_run tidies the module and runs its program.
go_run() {
  go mod tidy >/dev/null 2>&1
  CGO_ENABLED=0 go run .
}

# raft starts a module with hashicorp/raft v1.7.3 and node.go: start(ID) returns a node in memory and its transport.
raft() {
  go_modules github.com/hashicorp/raft@v1.7.3
  echo "github.com/hashicorp/raft v1.7.3"
  cat >node.go <<'GO'
package main

import (
	"io"

	"github.com/hashicorp/raft"
)

type machine struct{}

func (machine) Apply(*raft.Log) any                 { return nil }
func (machine) Snapshot() (raft.FSMSnapshot, error) { return nil, raft.ErrNothingNewToSnapshot }
func (machine) Restore(r io.ReadCloser) error       { return r.Close() }

func start(id raft.ServerID) (*raft.Raft, *raft.InmemTransport) {
	c := raft.DefaultConfig()
	c.LocalID, c.LogOutput = id, io.Discard
	_, wire := raft.NewInmemTransport(raft.ServerAddress(id))
	store := raft.NewInmemStore()
	r, err := raft.NewRaft(c, machine{}, store, store, raft.NewInmemSnapshotStore(), wire)
	if err != nil {
		panic(err)
	}
	return r, wire
}
GO
}

# river starts a module with River v0.43.0 on SQLite and client.go: open(WORKER) returns a client with that worker.
river() {
  go_modules github.com/riverqueue/river@v0.43.0 github.com/riverqueue/river/riverdriver/riversqlite@v0.43.0 modernc.org/sqlite@v1.62.0
  echo "github.com/riverqueue/river v0.43.0"
  cat >client.go <<'GO'
package main

import (
	"context"
	"database/sql"
	"io"
	"log/slog"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	_ "modernc.org/sqlite"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func open[A river.JobArgs](w river.Worker[A]) *river.Client[*sql.Tx] {
	db := must(sql.Open("sqlite", "file:jobs.db?_pragma=journal_mode(WAL)&_txlock=immediate"))
	db.SetMaxOpenConns(1)
	driver := riversqlite.New(db)
	must(must(rivermigrate.New(driver, nil)).Migrate(context.Background(), rivermigrate.DirectionUp, nil))
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	return must(river.NewClient(driver, &river.Config{
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Queues: map[string]river.QueueConfig{"default": {MaxWorkers: 1}}, Workers: workers,
	}))
}
GO
}

# same NAME GOT WANT: fail with a clear line if the behavior changed.
same() {
  echo "$1: $2"
  if [ "$2" != "$3" ]; then
    echo "CHANGED: $1: got $2, recorded $3"
    exit 1
  fi
}
