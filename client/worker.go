package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rotasched/rota"
)

const (
	// maxDrain is the default time that handlers get to finish when the worker stops. stopGrace is how long the worker
	// waits for handlers whose context ended: longer than a handler needs to stop a child process gently, then by
	// force.
	maxDrain  = 30 * time.Second
	stopGrace = 10 * time.Second
	// minSecret and maxSecret bound the length of a given secret in bytes (SPEC §6.4).
	minSecret = 16
	maxSecret = 64
)

// Worker executes jobs. Create one with NewWorker, register handlers, run it once.
type Worker struct {
	client   *Client
	spec     rota.WorkerSpec
	secret   []byte
	takeover bool
	// retryRefused makes the worker try again after the cluster refuses it.
	retryRefused bool
	old          []byte // with takeover: the secret of the process that has the id
	attested     *rota.Attestation
	drain        time.Duration
	hard         context.Context
	log          *slog.Logger
	observer     Observer
	now          func() time.Duration
	// middleware wraps each handler, the first outermost.
	middleware []Middleware

	mu       sync.Mutex
	handlers map[rota.JobType]Handler
	ran      bool
	// connection is the number of the newest one; used by Run only.
	connection uint64
}

// WorkerOption configures a worker.
type WorkerOption func(*Worker)

// WithSecret sets the secret, 16 to 64 bytes, that proves the worker's session (SPEC §6.4). A restarted process with
// the same id and secret gets its open leases back. By default each Worker makes its own secret.
func WithSecret(secret []byte) WorkerOption {
	return func(w *Worker) { w.secret = slices.Clone(secret) }
}

// WithTakeover takes over an id that is in use: the old session's leases are revoked (SPEC §6.4).
func WithTakeover() WorkerOption { return func(w *Worker) { w.takeover = true } }

// WithTakeoverSecret is like WithTakeover, but proves permission by the secret of the process that has the id: it needs
// no rights on workers.
func WithTakeoverSecret(old []byte) WorkerOption {
	return func(w *Worker) { w.takeover, w.old = true, slices.Clone(old) }
}

// WithRetryRefused makes Run try again, with backoff, when the cluster refuses the worker: for credentials that are
// created, or ids that are freed, after the worker starts. By default Run returns the refusal.
func WithRetryRefused() WorkerOption { return func(w *Worker) { w.retryRefused = true } }

// WithAttestation presents a key holder's statement that the worker, by its id, may serve the cluster (SPEC §6.5). If
// it is invalid, the cluster refuses the worker and Run ends.
func WithAttestation(a rota.Attestation) WorkerOption { return func(w *Worker) { w.attested = &a } }

// WithWorkerLogger sets the worker's logger. The default is the client's.
func WithWorkerLogger(log *slog.Logger) WorkerOption { return func(w *Worker) { w.log = log } }

// WithObserver sets the functions that the worker calls about its handlers and leases.
func WithObserver(o Observer) WorkerOption { return func(w *Worker) { w.observer = o } }

// WithDrainTimeout sets how long handlers may run after Run's context ended. Then their contexts end and their leases
// are declined. Default 30 s.
func WithDrainTimeout(d time.Duration) WorkerOption { return func(w *Worker) { w.drain = d } }

// WithHardStop ends all handlers' contexts at once when ctx ends: the second step of stopping, for a second signal.
func WithHardStop(ctx context.Context) WorkerOption { return func(w *Worker) { w.hard = ctx } }

// WithClock replaces the monotonic clock that leases are judged by (SPEC §3.5), for simulations. It must never run
// slower than the cluster's clock.
func WithClock(now func() time.Duration) WorkerOption { return func(w *Worker) { w.now = now } }

func checkSecret(field string, secret []byte) error {
	if n := len(secret); n < minSecret || n > maxSecret {
		return rota.Refusef(rota.KindInvalid, field, "%s: got %d bytes, want %d to %d", field, n, minSecret, maxSecret)
	}
	return nil
}

// NewWorker returns a worker. An empty id is replaced by a new one.
func NewWorker(c *Client, spec rota.WorkerSpec, opts ...WorkerOption) (*Worker, error) {
	w := &Worker{
		client: c, spec: spec, drain: maxDrain, hard: context.Background(), log: c.log, now: sinceBoot,
		handlers: make(map[rota.JobType]Handler),
	}
	for _, o := range opts {
		o(w)
	}
	if w.spec.ID == "" {
		w.spec.ID = newWorkerID()
	}
	if w.secret == nil {
		w.secret = make([]byte, 32)
		_, _ = rand.Read(w.secret) // never fails: crypto/rand stops the process instead
	}
	if err := checkSecret("secret", w.secret); err != nil {
		return nil, err
	}
	if w.old != nil {
		if err := checkSecret("old secret", w.old); err != nil {
			return nil, err
		}
	}
	if err := w.spec.CheckShape(); err != nil {
		return nil, err
	}
	return w, nil
}

// newWorkerID returns host-pid-random: a new process must not be mistaken for one that died.
func newWorkerID() rota.WorkerID {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "worker"
	}
	host = strings.Map(func(r rune) rune {
		if r < 128 && rota.ValidID(string(r)) {
			return r
		}
		return '-'
	}, host)
	tail := make([]byte, 4)
	_, _ = rand.Read(tail)
	end := fmt.Sprintf("-%d-%s", os.Getpid(), hex.EncodeToString(tail))
	return rota.WorkerID(host[:min(len(host), rota.MaxIDBytes-len(end))] + end)
}

// ID returns the worker's id.
func (w *Worker) ID() rota.WorkerID { return w.spec.ID }

// Handle sets the handler of a job type; "" sets the handler of every type without one of its own. Without a handler
// for "" the worker registers the types that it has handlers for when it connects, unless its spec names types, and
// gets no jobs of other types (SPEC §16.2). So call Handle before Run. A lease of a type without a handler is declined.
func (w *Worker) Handle(typ rota.JobType, h Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handlers[typ] = w.wrapped(h)
}

// registered returns the spec that the worker registers with when it connects.
func (w *Worker) registered() rota.WorkerSpec {
	w.mu.Lock()
	defer w.mu.Unlock()
	spec := w.spec
	if len(spec.Types) == 0 && w.handlers[""] == nil && len(w.handlers) <= rota.MaxTypesHandled {
		spec.Types = slices.Sorted(maps.Keys(w.handlers))
	}
	return spec
}

func (w *Worker) handler(typ rota.JobType) Handler {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.handlers[typ]; h != nil {
		return h
	}
	return w.handlers[""]
}
