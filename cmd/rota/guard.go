package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// guardEnv tells a worker which file leads to its guard. It is no flag's twin, and the
// worker's own children never see it: one of them may be another guard.
const guardEnv = "ROTA_GUARD_FD"

// identity is what a worker tells its guard, which proves by it that it may speak for
// the worker. It goes over the pipe between the two alone, so that nobody finds the
// secret in a command line, an environment or a log.
type identity struct {
	Worker  rota.WorkerID `json:"worker"`
	Session rota.Session  `json:"session"`
	Secret  []byte        `json:"secret"`
}

// guardedWorker is the worker's end of the pipe to its guard, nil without one.
type guardedWorker struct {
	pipe    io.ReadWriteCloser
	secret  []byte
	session rota.Session // that the guard knows of
}

// underGuard gives the worker's end where this process has a guard.
func (a *app) underGuard() (*guardedWorker, error) {
	given, ok := os.LookupEnv(guardEnv)
	if !ok {
		return nil, nil
	}
	if err := os.Unsetenv(guardEnv); err != nil {
		return nil, err
	}
	fd, err := strconv.Atoi(given)
	if err != nil || fd < 3 {
		return nil, usagef("%s is %q: a guard sets it, and nobody else", guardEnv, given)
	}
	pipe, err := guardPipe(fd)
	if err != nil {
		return nil, usagef("%s is %q, which leads to no guard: %w", guardEnv, given, err)
	}
	g := &guardedWorker{pipe: pipe, secret: make([]byte, 32)}
	_, _ = rand.Read(g.secret) // never fails: crypto/rand stops the process instead
	return g, nil
}

// heard has the guard know which session it speaks for as soon as the worker does: nothing runs
// before.
func (g *guardedWorker) heard(next func(client.ConnectionEvent)) func(client.ConnectionEvent) {
	return func(e client.ConnectionEvent) {
		if e.Session != g.session {
			g.session = e.Session
			_ = json.NewEncoder(g.pipe).Encode(identity{e.Worker, e.Session, g.secret}) // lost tells of a guard that is no more
		}
		next(e)
	}
}

// lost returns once the guard is no more.
func (g *guardedWorker) lost() {
	_, _ = io.Copy(io.Discard, g.pipe)
}

// learned is what a guard heard of its worker last; read it once done is closed.
type learned struct {
	done chan struct{}
	last identity
}

// learn reads what the worker tells until it has ended.
func learn(pipe io.Reader) *learned {
	l := &learned{done: make(chan struct{})}
	go func() {
		defer close(l.done)
		in := json.NewDecoder(pipe)
		for {
			var next identity
			if in.Decode(&next) != nil {
				return
			}
			l.last = next
		}
	}()
	return l
}

// goneMost is how long a guard tries to end what is left of a worker and to tell the
// cluster: silence ends the worker's leases by then anyway (SPEC §3.10).
const goneMost = time.Duration(rota.SilenceEnds)*time.Millisecond + 5*time.Second

// goneAsked is how long it tries where the worker was asked to end and ended by itself: its
// own 45 s of trying to tell its outcomes are over then (SPEC §20.1).
const goneAsked = 3 * time.Second

// sayGone tells the cluster that the worker and all that it left have ended.
func (a *app) sayGone(ctx context.Context, who identity) {
	err := a.with(func(c *client.Client) error { return c.WorkerGone(ctx, who.Worker, who.Session, who.Secret) })
	switch kind := rota.KindOf(err); {
	case err == nil:
		a.talk("guard: the cluster knows that worker %s is gone: its leases have ended", who.Worker)
	case kind == rota.Stale || kind == rota.NotFound:
		a.talk("guard: worker %s has no leases in session %d any more", who.Worker, who.Session)
	case errors.Is(err, context.Canceled):
		a.talk("guard: stopped by a signal: the leases of worker %s end by its silence", who.Worker)
	default:
		a.talk("guard: the cluster was not told that worker %s is gone: its leases end by its silence: %v", who.Worker, err)
	}
}
