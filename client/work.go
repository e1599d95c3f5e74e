package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// startMore starts handlers while slots are free. It starts one only for a lease that is valid by the view: so none
// before a beat was answered, and none whose ack_by or deadline has passed by the view (H22).
func (t *leaseTable) startMore(now time.Duration) {
	if !t.point.known || len(t.queue) == 0 {
		return
	}
	var held []*lease
	defer func() {
		if len(held) > 0 {
			t.queue = append(held, t.queue...)
		}
	}()
	for len(t.queue) > 0 && t.running < int(t.worker.spec.Slots) {
		l := t.queue[0]
		t.queue[0] = nil
		t.queue = t.queue[1:]
		if l.phase != waiting || t.leases[l.assignment.Lease.ID] != l || t.expired(l, now) {
			continue
		}
		if now >= l.end(t.point) {
			held = append(held, l)
			continue
		}
		h := t.worker.handler(l.assignment.Spec.Type)
		if h == nil {
			t.decline(l, "the worker has no handler for type "+string(l.assignment.Spec.Type))
			continue
		}
		job := l.assignment.Lease.Job
		if _, busy := t.busy[job]; busy {
			// An earlier handler ignores its context: never run two handlers of one job at once.
			t.decline(l, "the handler of an earlier attempt of the job still runs in this process")
			continue
		}
		t.busy[job] = struct{}{}
		ctx, cancel := context.WithCancelCause(t.base)
		l.phase, l.cancel = running, cancel
		t.waiting--
		t.running++
		if t.stopping != nil {
			cancel(t.stopping)
		}
		l.table = t
		l.job.assignment, l.job.progress, l.job.parents, l.job.lease = l.assignment, t.reports, t.parents, l
		l.context = jobContext{ctx, &l.job}
		t.pool.dispatch(start{&l.context, l, h})
	}
	if len(t.queue) == 0 {
		t.queue = nil
	}
}

// work runs one handler until it ends, in whatever way. free is where its goroutine receives the next one.
func (t *leaseTable) work(s start, free runner) {
	w, l := t.worker, s.lease
	w.observer.call(w.observer.Started, w.spec.ID, l.assignment, 0, nil)
	var result Result
	var err error
	ended := false
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
			t.log.Error("handler panicked", "job", string(l.assignment.Lease.Job), "panic", p)
		} else if !ended {
			err = errors.New("the handler ended its goroutine without returning")
			free = nil
		}
		w.observer.call(w.observer.Finished, w.spec.ID, l.assignment, 0, err)
		t.returned(l, outcomeOf(l.assignment.Lease.Job, result, err), err, free)
	}()
	result, err = s.handler(s.ctx, &l.job)
	ended = true
}

// panicked keeps the beginning: the panic value and the nearest stack frames.
func panicked(p any) error {
	text := fmt.Sprintf("panic: %v\n\n%s", p, debug.Stack())
	return errors.New(text[:min(len(text), limits.MaxErrorBytes)])
}

// outcomeOf converts what the handler returned into a lease command.
func outcomeOf(job rota.JobID, r Result, err error) peer.LeaseCommand {
	children, refused := childrenOf(job, r.Children)
	switch {
	case err != nil:
		return outcomeOfError(err)
	case len(r.Output) > rota.MaxPayloadBytes:
		return peer.LeaseCommand{Verb: rota.VerbFail, Text: fmt.Sprintf(
			"output too long: got %d bytes, maximum %d; store large data elsewhere and return its name",
			len(r.Output), rota.MaxPayloadBytes)}
	case len(r.Digest) != 0 && len(r.Digest) != sha256.Size:
		return peer.LeaseCommand{Verb: rota.VerbFail, Text: fmt.Sprintf(
			"digest: got %d bytes from the handler, want %d or none", len(r.Digest), sha256.Size)}
	}
	if err := cmp.Or(refused, rota.CheckMeta(r.Meta)); err != nil {
		return peer.LeaseCommand{Verb: rota.VerbFail, Text: "the handler's result is refused: " + err.Error()}
	}
	if len(r.Digest) == 0 {
		sum := sha256.Sum256(r.Output)
		r.Digest = sum[:]
	}
	return peer.LeaseCommand{Verb: rota.VerbComplete, Output: r.Output, OutputDigest: r.Digest, Meta: r.Meta,
		Children: children}
}

// childrenOf encodes the nodes that a handler adds to its job's workflow, nil for none.
func childrenOf(job rota.JobID, g *rota.Growth) ([]byte, error) {
	if g == nil {
		return nil, nil
	}
	_, node, ok := rota.SplitNodeJobID(job)
	if !ok {
		return nil, rota.Refusef(rota.KindInvalid, "children",
			"job %s is not a node of a workflow: only such a job can have children", job)
	}
	if err := g.CheckShape(node); err != nil {
		return nil, err
	}
	b, err := words.GrowthToWire(g)
	if err == nil && len(b) > limits.MaxChildrenBytes {
		err = rota.Refusef(rota.KindInvalid, "children",
			"children too long: got %d bytes, maximum %d; store large data elsewhere and name it "+
				"in payloads", len(b), limits.MaxChildrenBytes)
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

func outcomeOfError(err error) peer.LeaseCommand {
	var declined declineError
	if errors.As(err, &declined) {
		return peer.LeaseCommand{Verb: rota.VerbDecline, Text: lastOf(err.Error())}
	}
	c := peer.LeaseCommand{Verb: rota.VerbFail, Text: lastOf(err.Error())}
	if asked, ok := errors.AsType[failError](err); ok {
		c.Fail, c.After, c.PauseKey = asked.kind, asked.after, asked.pause
	}
	return c
}

// lastOf keeps the end of an error's text, where the reason is.
func lastOf(s string) string {
	if len(s) > limits.MaxErrorBytes {
		s = s[len(s)-limits.MaxErrorBytes:]
	}
	return strings.ToValidUTF8(s, "")
}

// returned settles a lease after its handler returned. A lease that was given up is not reported on. It is declined if
// the cluster may still count on it: a revoked lease (SPEC §8.5), or one that ended only by the view (SPEC §3.9). It is
// failed if max_runtime is over by the view (SPEC §20.2). If the lease was not given up yet and its handler was only
// slow to return, the outcome is reported: the cluster decides whether the lease is still open (SPEC §3.7).
func (t *leaseTable) returned(l *lease, outcome peer.LeaseCommand, err error, free runner) {
	t.mu.Lock()
	defer t.unlock()
	t.pool.keep(free)
	t.running--
	delete(t.busy, l.assignment.Lease.Job)
	l.cancel(nil)
	switch {
	case l.lost != nil && l.declines && l.lost.Reason == rota.ReasonTimedOut:
		if err == context.Canceled || errors.Is(err, ErrLeaseLost) {
			outcome.Text = "" // only the context's own error, wrapped or not: the cluster's text is better
		}
		t.report(l, peer.LeaseCommand{Verb: rota.VerbFail, Fail: peer.FailTimedOut, Text: outcome.Text})
	case l.lost != nil && l.declines:
		t.report(l, peer.LeaseCommand{Verb: rota.VerbDecline, Text: lastOf(l.lost.Text)})
	case l.lost != nil:
		t.forget(l)
	case t.stopping != nil && err != nil:
		text := lastOf(t.stopping.Error() + ": " + err.Error())
		t.report(l, peer.LeaseCommand{Verb: rota.VerbDecline, Text: text})
	default:
		t.report(l, outcome)
	}
	if len(t.queue) > 0 { // reading the clock is a system call
		t.startMore(t.worker.now())
	}
	t.checkQuiet()
}

// progress accepts a handler's report without blocking.
func (t *leaseTable) progress(j *Job, percent int, note string) {
	l := j.lease
	if len(note) > limits.MaxNoteBytes {
		note = note[:limits.MaxNoteBytes]
		for !utf8.ValidString(note) && len(note) > limits.MaxNoteBytes-utf8.UTFMax {
			note = note[:len(note)-1]
		}
	}
	t.mu.Lock()
	defer t.unlock()
	if l.phase != running || l.lost != nil {
		return
	}
	l.progressHeld = &peer.LeaseCommand{
		Verb: rota.VerbProgress, Progress: int32(max(0, min(percent, 100))), Text: strings.ToValidUTF8(note, ""),
	}
	l.reported = l.progressHeld
	t.sendProgress(l)
}

// sendProgress sends the held report now, or soon if the last one was less than a second ago.
func (t *leaseTable) sendProgress(l *lease) {
	if now := t.worker.now(); l.progress == nil && now >= l.progressNext {
		t.progressDue(l, now)
	} else {
		t.watchSoon()
	}
}

// drain begins the shutdown: no new lease is accepted, and outcomes are no longer retried forever.
func (t *leaseTable) drain() {
	if !t.draining {
		t.draining, t.drainedAt = true, t.worker.now()
		t.watchSoon()
	}
}

// beginDrain declines all leases that never started, and all that still arrive.
func (t *leaseTable) beginDrain() (handlers int) {
	t.mu.Lock()
	defer t.unlock()
	t.drain()
	for _, l := range t.leases {
		if l.phase == waiting {
			t.decline(l, "the worker drains")
		}
	}
	t.queue = nil
	t.checkQuiet()
	return t.running
}

// stopHandlers ends all handlers' contexts.
func (t *leaseTable) stopHandlers(why error) {
	t.mu.Lock()
	defer t.unlock()
	t.stopping = why
	for _, l := range t.leases {
		if l.phase == running {
			l.cancel(why)
		}
	}
}

// abandon gives up every lease: the session is over.
func (t *leaseTable) abandon(text string) {
	t.mu.Lock()
	defer t.unlock()
	t.drain()
	t.loseAll(text)
	t.checkQuiet()
}

// closePool ends the goroutines that run handlers.
func (t *leaseTable) closePool() {
	t.mu.Lock()
	defer t.unlock()
	t.pool.close()
}

// still counts the handlers that have not returned.
func (t *leaseTable) still() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.running
}
