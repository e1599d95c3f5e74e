package guard

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/rotasched/rota"
)

// env tells a worker which file leads to its guard. It is no flag's twin, and the
// worker's own children never see it: one of them may be another guard.
const env = "ROTA_GUARD_FD"

// ErrUnknown says that this system has no means for a guard.
var ErrUnknown = errors.New("a guard is known on Linux only")

// Guard watches over a worker.
type Guard struct {
	// Talk reports what happens, in one line.
	Talk func(format string, args ...any)
	// Gone tells the cluster that the worker and all that it left have ended.
	Gone func(ctx context.Context, who Identity)
}

// Identity is what a worker tells its guard, which proves by it that it may speak for
// the worker. It goes over the pipe between the two alone, so that nobody finds the
// secret in a command line, an environment or a log.
type Identity struct {
	Worker  rota.WorkerID `json:"worker"`
	Session rota.Session  `json:"session"`
	Secret  []byte        `json:"secret"`
}

// Pipe is the worker's end of the pipe to its guard.
type Pipe struct {
	pipe    io.ReadWriteCloser
	secret  []byte
	session rota.Session // that the guard knows of
}

// Over returns the worker's end where this process has a guard, else nil.
func Over() (*Pipe, error) {
	given, ok := os.LookupEnv(env)
	if !ok {
		return nil, nil
	}
	if err := os.Unsetenv(env); err != nil {
		return nil, err
	}
	fd, err := strconv.Atoi(given)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s is %q: only a guard may set it", env, given)
	}
	pipe, err := take(fd)
	if err != nil {
		return nil, fmt.Errorf("%s is %q, which leads to no guard: %w", env, given, err)
	}
	g := &Pipe{pipe: pipe, secret: make([]byte, 32)}
	_, _ = rand.Read(g.secret) // never fails: crypto/rand stops the process instead
	return g, nil
}

// Secret is what proves that the guard may speak for the worker.
func (g *Pipe) Secret() []byte { return g.secret }

// SetSecret replaces the secret, which is random otherwise. It is called before Tell.
func (g *Pipe) SetSecret(secret []byte) { g.secret = secret }

// Tell has the guard know which session it speaks for. The worker calls it before
// anything runs in that session.
func (g *Pipe) Tell(worker rota.WorkerID, session rota.Session) {
	if session != g.session {
		g.session = session
		_ = json.NewEncoder(g.pipe).Encode(Identity{worker, session, g.secret}) // Lost reports a guard that is no more
	}
}

// Lost returns once the guard is no more.
func (g *Pipe) Lost() {
	_, _ = io.Copy(io.Discard, g.pipe)
}

// learned is what a guard heard of its worker last; read it once done is closed.
type learned struct {
	done chan struct{}
	last Identity
}

// learn reads what the worker tells until it has ended.
func learn(pipe io.Reader) *learned {
	l := &learned{done: make(chan struct{})}
	go func() {
		defer close(l.done)
		in := json.NewDecoder(pipe)
		for {
			var next Identity
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
