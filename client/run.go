package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
)

// maxBye bounds the time for the Bye; without one the worker's silence has the same effect (SPEC §3.10).
const maxBye = 5 * time.Second

// Run serves jobs until ctx ends, then drains: it accepts no new lease, returns leases that never started, lets
// handlers finish up to the drain timeout, sends Bye and returns nil. Handlers that are still running at that timeout
// have their contexts ended and their leases declined.
//
// An outcome that cannot be reported is abandoned once its lease is over by the worker's view, at the latest 30 s after
// the last answered beat: Run then returns an *UnreportedError that names the jobs.
//
// Run also returns an error when the cluster refuses the worker (UNAUTHENTICATED, DENIED, CONFLICT or INVALID; see
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

// over stops the worker after the cluster ended or refused its session.
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
		// Stop new leases now: they would be returned at once, which would cost their jobs a decline (SPEC §8.4).
		ctx, cancel := context.WithTimeout(life, maxBye)
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

// leave ends a drain after which nothing is left to do: successfully, or with outcomes that could not be reported; then
// there is no connection to send Bye on.
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
	timer := time.NewTimer(maxBye)
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

// watch ends and renews leases in time, independently of the handlers, until stop is called.
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

// watchSoon schedules a check of the leases, if they are watched.
func (t *leaseTable) watchSoon() {
	if t.watcher != nil && t.nextTick != 0 { // 0 means that a check is running
		t.nextTick = 0
		t.watcher.Reset(0)
	}
}

// turnedAwayEvery is how often a lasting failure is reported.
const turnedAwayEvery = 30 * time.Second

// connect keeps one stream to one node, and moves to another when it breaks. It returns nil after the Bye, and an error
// when another try would not help.
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
			// After the takeover the id belongs to this process; if another process takes it over later, that one keeps
			// it.
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
		if f := (failure{s.node.address, e.Subject, e.Kind}); !s.welcomed &&
			time.Since(reported[f]) >= turnedAwayEvery {
			reported[f] = time.Now()
			t.tellConnection(w.observer.TurnedAway, s, e)
		}
		if s.healthy {
			try = 0
		}
		at++
		// The first other node is tried at once; after that the pauses grow.
		if try > 0 || len(nodes) == 1 {
			if !pause(ctx, retryDelay(try, min(e.RetryAfter, maxBackoff))) {
				return ctx.Err()
			}
		}
	}
}

// nextConnection returns the next number of the worker's connections. Numbers start at the time of day, so that a
// process that continues with the id and secret of an earlier one also continues its numbering.
func (w *Worker) nextConnection() uint64 {
	w.connection = max(w.connection+1, uint64(max(time.Now().UnixMicro(), 1)))
	return w.connection
}

// skipConnections skips ahead of the numbers that the cluster has seen from the worker: the time of day went back
// between two processes.
func (w *Worker) skipConnections(try int) { w.connection += 1 << min(20+4*try, 60) }

// refuses reports whether connecting elsewhere would not help: the cluster refuses the worker, or its session is over.
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

// errNoBeat is why a stream is left when its node answers no beat: the node is cut off, or has no leader.
var errNoBeat = errors.New("the node does not answer beats")

// errOtherToken is why a stream is left when the token it began with has been replaced: the worker keeps its session
// and leases under the new token, and may lose them with the old one.
var errOtherToken = errors.New("the access token was replaced")
