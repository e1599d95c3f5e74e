package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
)

// byeMost is how long the farewell may take; without one the worker's silence
// does (SPEC §3.10).
const byeMost = 5 * time.Second

// Run serves until ctx ends, then drains: it takes no new lease, gives back what
// never started, lets handlers finish up to the drain timeout, says goodbye and
// returns nil. Handlers that are still running then have their contexts ended
// and their leases declined. An outcome that cannot be reported is abandoned once its
// lease is over by the worker's view, 30 s after the last answered beat at the
// latest: Run then returns an *UnreportedError that names the jobs. Run also returns an
// error when the cluster refuses the worker (UNAUTHENTICATED, DENIED, CONFLICT or INVALID; see
// WithRetryRefused), when its session is over, or when handlers did not return. It can be called once.
func (w *Worker) Run(ctx context.Context) error {
	w.mu.Lock()
	again := w.ran
	w.ran = true
	w.mu.Unlock()
	if again {
		return rota.Refusef(rota.KindConflict, "worker", "worker %s ran already: create a new one", w.spec.ID)
	}
	base := context.WithoutCancel(ctx)
	t := newLeaseTable(w, base)
	defer t.closePool()
	life, end := context.WithCancel(base)
	defer t.watch()()
	gone := make(chan error, 1)
	go func() { gone <- w.connect(life, t) }()
	defer end()

	select {
	case <-ctx.Done():
	case <-w.hard.Done():
	case err := <-gone:
		return w.over(t, err)
	case <-t.superseded:
		err := w.yield(t, gone)
		end()
		<-gone
		return err
	}
	err := w.finish(life, t, gone)
	end()
	<-gone
	return err
}

// over ends the worker whose session the cluster ended or refused.
func (w *Worker) over(t *leaseTable, cause error) error {
	t.abandon("the worker's session is over")
	if !within(t.quiet, stopGrace) {
		return fmt.Errorf("%w (and %d handlers did not return)", cause, t.still())
	}
	return cause
}

// finish drains. gone is left with one value to be read.
func (w *Worker) finish(life context.Context, t *leaseTable, gone chan error) error {
	if handlers := t.beginDrain(); handlers > 0 {
		t.log.Info("draining", "handlers", handlers, "timeout", w.drain)
		// So that the cluster sends no lease that would be given back at once,
		// which would cost its job a decline (SPEC §8.4).
		ctx, cancel := context.WithTimeout(life, byeMost)
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			if _, err := w.client.DrainWorker(ctx, w.spec.ID); err != nil {
				t.log.Debug("the cluster did not take the drain", "err", err)
			}
		}()
		defer func() { cancel(); <-drained }()
	}
	timer := time.NewTimer(w.drain)
	defer timer.Stop()
	select {
	case <-t.quiet:
		return w.leave(t, gone)
	case err := <-gone:
		gone <- nil
		return w.over(t, err)
	case <-timer.C:
	case <-w.hard.Done():
	}
	t.stopHandlers(ErrDrainTimeout)
	if within(t.quiet, stopGrace) {
		return w.leave(t, gone)
	}
	if n := t.still(); n > 0 {
		return rota.Refusef(rota.KindTimeout, "worker",
			"%d handlers did not return in time: their leases run out by silence", n)
	}
	return t.unreportedJobs()
}

// leave ends a drain after which nothing is left to do: well, or with what could not be
// reported, and then there is nobody to say goodbye to.
func (w *Worker) leave(t *leaseTable, gone chan error) error {
	if err := t.unreportedJobs(); err != nil {
		return err
	}
	return w.bye(t, gone)
}

// bye retires the worker, if the cluster knows it and can be reached.
func (w *Worker) bye(t *leaseTable, gone chan error) error {
	if !t.taken.Load() {
		return nil
	}
	t.sayBye()
	timer := time.NewTimer(byeMost)
	defer timer.Stop()
	select {
	case err := <-gone:
		gone <- nil
		if err != nil {
			t.log.Info("left without a farewell", "err", err)
		}
	case <-timer.C:
		t.log.Info("left without a farewell: no node answered")
	}
	return nil
}

func within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// watch has leases ended and renewed in time, out of the handlers' way, until stop is called.
func (t *leaseTable) watch() (stop func()) {
	t.mu.Lock()
	t.watcher = time.AfterFunc(0, t.tick)
	t.mu.Unlock()
	return func() {
		t.mu.Lock()
		t.watcher.Stop()
		t.watcher = nil
		t.mu.Unlock()
		t.ticks.Wait()
	}
}

// watchSoon has the leases looked at, where they are watched.
func (t *leaseTable) watchSoon() {
	if t.watcher != nil && t.nextTick != 0 { // with 0 it is under way
		t.nextTick = 0
		t.watcher.Reset(0)
	}
}

// turnedAwayEvery is how often a failure that goes on is reported.
const turnedAwayEvery = 30 * time.Second

// connect keeps one stream to one node, and goes to another when it breaks. It
// returns nil after the farewell, an error when no other try would help.
func (w *Worker) connect(ctx context.Context, t *leaseTable) error {
	nodes := w.client.nodes
	at := rand.IntN(len(nodes)) // workers spread over the nodes
	takeover := w.takeover
	type failure struct {
		address, subject string
		kind             rota.Kind
	}
	reported := map[failure]time.Time{}
	for try := 0; ; try++ {
		s := &stream{table: t, node: nodes[at%len(nodes)], takeover: takeover, connection: w.nextConnection()}
		err := s.serve(ctx)
		t.broken()
		if s.welcomed {
			// Once taken over, the id is ours; if another takes it over later, it is theirs.
			takeover = false
			t.tellConnection(w.observer.Disconnected, s, err)
			clear(reported)
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case w.client.life.Err() != nil:
			return &rota.Error{Kind: rota.KindUnavailable, Op: "work", Text: "the client is closed"}
		}
		e := judge(ctx, s.node, err)
		if e.Kind == rota.KindStale && e.Subject == "connection" && !s.welcomed {
			w.skipConnections(try)
		} else if refused := refuses(e.Kind, s.welcomed); refused && (!w.retryRefused || e.Kind == rota.KindStale) {
			return during("work", e)
		} else if refused {
			t.taken.Store(false)
		}
		t.log.Info("connection lost, going on elsewhere", "address", s.node.address, "err", e)
		if f := (failure{s.node.address, e.Subject, e.Kind}); !s.welcomed && time.Since(reported[f]) >= turnedAwayEvery {
			reported[f] = time.Now()
			t.tellConnection(w.observer.TurnedAway, s, e)
		}
		if s.healthy {
			try = 0
		}
		at++
		// The first other node is asked at once; after that, patience grows.
		if try > 0 || len(nodes) == 1 {
			if !pause(ctx, retryDelay(try, min(e.RetryAfter, backoffMost))) {
				return ctx.Err()
			}
		}
	}
}

// nextConnection numbers the worker's connections. It begins with the time of day, so
// that a process that goes on with the id and secret of one before it goes on numbering.
func (w *Worker) nextConnection() uint64 {
	w.connection = max(w.connection+1, uint64(max(time.Now().UnixMicro(), 1)))
	return w.connection
}

// skipConnections leaps ahead of what the cluster has seen of the worker: the time of day
// went back between two processes.
func (w *Worker) skipConnections(try int) { w.connection += 1 << min(20+4*try, 60) }

// refuses reports whether connecting elsewhere would not help: the cluster refuses the
// worker, or its session is over.
func refuses(k rota.Kind, welcomed bool) bool {
	switch k {
	case rota.KindStale, rota.KindDenied, rota.KindUnauthenticated:
		return true
	case rota.KindInvalid, rota.KindConflict:
		return !welcomed
	default:
		return false
	}
}

func (t *leaseTable) tellConnection(f func(ConnectionEvent), s *stream, err error) {
	if f == nil {
		return
	}
	f(ConnectionEvent{
		Worker: t.worker.spec.ID, Address: s.node.address, Node: s.name, Session: s.session,
		At: time.Now(), Err: err,
	})
}

// errNoBeat is why a stream is left whose node answers no beat: it is cut off,
// or has no leader.
var errNoBeat = errors.New("the node does not answer beats")

// errOtherToken is why a stream is left that began with a token which was replaced since: the
// worker keeps its session and leases under the new one, and may lose them with the old one.
var errOtherToken = errors.New("the access token was replaced")
