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

// env names the file descriptor that leads from a worker to its guard. It is not the twin of a flag, and the worker's
// own children never see it: one of them may be another guard.
const env = "ROTA_GUARD_FD"

// ErrUnknown means that this system has no means for a guard.
var ErrUnknown = errors.New("a guard is known on Linux only")

// Guard watches a worker.
type Guard struct {
	// Talk reports an occurrence in one line.
	Talk func(format string, args ...any)
	// Gone reports to the cluster that the worker and all its remaining processes have ended.
	Gone func(ctx context.Context, who Identity)
}

// Identity is sent by a worker to its guard, which proves with it that it may act for the worker. It goes over the pipe
// between the two only, so the secret appears in no command line, environment or log.
type Identity struct {
	Worker  rota.WorkerID `json:"worker"`
	Session rota.Session  `json:"session"`
	Secret  []byte        `json:"secret"`
}

// Pipe is the worker's end of the pipe to its guard.
type Pipe struct {
	pipe    io.ReadWriteCloser
	secret  []byte
	session rota.Session // the one that the guard knows
}

// Over returns the worker's end if this process has a guard, else nil.
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

// Secret returns the proof that the guard may act for the worker.
func (g *Pipe) Secret() []byte { return g.secret }

// SetSecret replaces the secret, which is random by default. It is called before Tell.
func (g *Pipe) SetSecret(secret []byte) { g.secret = secret }

// Tell sends the guard the session for which it acts. The worker calls it before anything runs in that session.
func (g *Pipe) Tell(worker rota.WorkerID, session rota.Session) {
	if session != g.session {
		g.session = session
		_ = json.NewEncoder(g.pipe).Encode(Identity{worker, session, g.secret}) // Lost reports a guard that has ended
	}
}

// Lost returns once the guard has ended.
func (g *Pipe) Lost() {
	_, _ = io.Copy(io.Discard, g.pipe)
}

// learned is the last identity that a guard received from its worker; read it once done is closed.
type learned struct {
	done chan struct{}
	last Identity
}

// learn reads the worker's messages until it has ended.
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

// maxGone is how long a guard tries to end a worker's remaining processes and to report to the cluster: silence ends
// the worker's leases by then anyway (SPEC §3.10).
const maxGone = time.Duration(rota.SilenceEnds)*time.Millisecond + 5*time.Second

// goneAsked is how long it tries if the worker was asked to end and ended by itself: the worker's own 45 s of trying to
// report its outcomes are over then (SPEC §20.1).
const goneAsked = 3 * time.Second
