package client

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// startMore starts handlers while there are slots: only for leases that are
// believed in, so none before a beat was answered, and none whose ack_by or
// deadline has come by the view (H22).
func (b *book) startMore(now time.Duration) {
	if !b.point.known || len(b.queue) == 0 {
		return
	}
	var held []*lease
	defer func() {
		if len(held) > 0 {
			b.queue = append(held, b.queue...)
		}
	}()
	for len(b.queue) > 0 && b.running < int(b.worker.spec.Slots) {
		l := b.queue[0]
		b.queue[0] = nil
		b.queue = b.queue[1:]
		if l.phase != waiting || b.leases[l.assignment.Lease.ID] != l || b.expired(l, now) {
			continue
		}
		if now >= l.end(b.point) {
			held = append(held, l)
			continue
		}
		h := b.worker.handler(l.assignment.Spec.Type)
		if h == nil {
			b.decline(l, "the worker has no handler for type "+string(l.assignment.Spec.Type))
			continue
		}
		job := l.assignment.Lease.Job
		if _, busy := b.busy[job]; busy {
			// A handler that does not heed its context: never two at once on a job.
			b.decline(l, "the handler of an attempt given up before has not returned here")
			continue
		}
		b.busy[job] = struct{}{}
		ctx, cancel := context.WithCancelCause(b.base)
		l.phase, l.cancel = running, cancel
		b.waiting--
		b.running++
		if b.stopping != nil {
			cancel(b.stopping)
		}
		l.job = Job{assignment: l.assignment, progress: b.reports, parents: b.parents, lease: l}
		b.give(start{ctx, l, h})
	}
	if len(b.queue) == 0 {
		b.queue = nil
	}
}

// work runs one handler to its end, whichever way it ends. free is where its goroutine
// takes the next one.
func (b *book) work(s start, free hand) {
	w, l := b.worker, s.lease
	w.observer.tell(w.observer.Started, w.spec.ID, l.assignment, 0, nil)
	var result Result
	var err error
	ended := false
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
			b.log.Error("handler panicked", "job", string(l.assignment.Lease.Job), "panic", p)
		} else if !ended {
			err = errors.New("the handler ended its goroutine without returning")
			free = nil
		}
		w.observer.tell(w.observer.Finished, w.spec.ID, l.assignment, 0, err)
		b.returned(l, outcomeOf(result, err), err, free)
	}()
	result, err = s.handler(s.ctx, &l.job)
	ended = true
}

// panicked keeps the beginning: what was said, and the frames next to it.
func panicked(p any) error {
	text := fmt.Sprintf("panic: %v\n\n%s", p, debug.Stack())
	return errors.New(text[:min(len(text), limits.MaxErrorBytes)])
}

// outcomeOf words what the handler returned.
func outcomeOf(r Result, err error) peer.LeaseCommand {
	switch {
	case err != nil:
		return outcomeOfError(err)
	case len(r.Output) > rota.MaxPayloadBytes:
		return peer.LeaseCommand{Verb: rota.VerbFail, Text: fmt.Sprintf(
			"the output has %d bytes: at most %d are kept, put larger ones elsewhere and name the place",
			len(r.Output), rota.MaxPayloadBytes)}
	case len(r.Digest) != 0 && len(r.Digest) != sha256.Size:
		return peer.LeaseCommand{Verb: rota.VerbFail, Text: fmt.Sprintf(
			"the handler's digest has %d bytes: %d or none are wanted", len(r.Digest), sha256.Size)}
	}
	if err := rota.CheckMeta(r.Meta); err != nil {
		return peer.LeaseCommand{Verb: rota.VerbFail, Text: "the handler's result is refused: " + err.Error()}
	}
	if len(r.Digest) == 0 {
		sum := sha256.Sum256(r.Output)
		r.Digest = sum[:]
	}
	return peer.LeaseCommand{Verb: rota.VerbComplete, Output: r.Output, OutputDigest: r.Digest, Meta: r.Meta}
}

func outcomeOfError(err error) peer.LeaseCommand {
	var declined declineError
	if errors.As(err, &declined) {
		return peer.LeaseCommand{Verb: rota.VerbDecline, Text: lastOf(err.Error())}
	}
	var noRetry noRetryError
	return peer.LeaseCommand{Verb: rota.VerbFail, Text: lastOf(err.Error()), NoRetry: errors.As(err, &noRetry)}
}

// lastOf keeps the last of an error's text, where the reason stands.
func lastOf(s string) string {
	if len(s) > limits.MaxErrorBytes {
		s = s[len(s)-limits.MaxErrorBytes:]
	}
	return strings.ToValidUTF8(s, "")
}

// returned settles a lease after its handler. A lease that was given up is not
// reported on: it is declined where the cluster still counts on it, as it does
// for a revoked one (SPEC §8.5) and for one that ended by the view alone
// (SPEC §3.9), or failed where the view says that max_runtime is over (SPEC §20.2). A
// handler that was merely late to see its end is: the cluster judges whether the lease is
// still open (SPEC §3.7).
func (b *book) returned(l *lease, outcome peer.LeaseCommand, err error, free hand) {
	b.mu.Lock()
	defer b.unlock()
	b.keep(free)
	b.running--
	delete(b.busy, l.assignment.Lease.Job)
	l.cancel(nil)
	switch {
	case l.lost != nil && l.declines && l.lost.Reason == rota.ReasonTimedOut:
		if err == context.Canceled || errors.Is(err, ErrLeaseLost) {
			outcome.Text = "" // the context's own words, wrapped or not: the cluster has better ones
		}
		b.report(l, peer.LeaseCommand{Verb: rota.VerbFail, TimedOut: true, Text: outcome.Text})
	case l.lost != nil && l.declines:
		b.report(l, peer.LeaseCommand{Verb: rota.VerbDecline, Text: lastOf(l.lost.Text)})
	case l.lost != nil:
		b.forget(l)
	case b.stopping != nil && err != nil:
		text := lastOf(b.stopping.Error() + ": " + err.Error())
		b.report(l, peer.LeaseCommand{Verb: rota.VerbDecline, Text: text})
	default:
		b.report(l, outcome)
	}
	if len(b.queue) > 0 { // reading the clock is a system call
		b.startMore(b.worker.now())
	}
	b.checkQuiet()
}

// progress takes a handler's report without waiting.
func (b *book) progress(j *Job, percent int, note string) {
	l := j.lease
	if len(note) > limits.MaxNoteBytes {
		note = note[:limits.MaxNoteBytes]
		for !utf8.ValidString(note) && len(note) > limits.MaxNoteBytes-utf8.UTFMax {
			note = note[:len(note)-1]
		}
	}
	b.mu.Lock()
	defer b.unlock()
	if l.phase != running || l.lost != nil {
		return
	}
	l.progressHeld = &peer.LeaseCommand{
		Verb: rota.VerbProgress, Progress: int32(max(0, min(percent, 100))), Text: strings.ToValidUTF8(note, ""),
	}
	if now := b.worker.now(); l.progress == nil && now >= l.progressNext {
		b.progressDue(l, now)
	} else {
		kick(b.watchKick)
	}
}

// drain begins the end: no lease is taken any more, and outcomes are not told for ever.
func (b *book) drain() {
	if !b.draining {
		b.draining, b.drainedAt = true, b.worker.now()
		kick(b.watchKick)
	}
}

// beginDrain declines what never started and everything that still comes.
func (b *book) beginDrain() (handlers int) {
	b.mu.Lock()
	defer b.unlock()
	b.drain()
	for _, l := range b.leases {
		if l.phase == waiting {
			b.decline(l, "the worker drains")
		}
	}
	b.queue = nil
	b.checkQuiet()
	return b.running
}

// stopHandlers ends all handlers' contexts.
func (b *book) stopHandlers(why error) {
	b.mu.Lock()
	defer b.unlock()
	b.stopping = why
	for _, l := range b.leases {
		if l.phase == running {
			l.cancel(why)
		}
	}
}

// abandon gives up every lease: the session is over.
func (b *book) abandon(text string) {
	b.mu.Lock()
	defer b.unlock()
	b.drain()
	b.loseAll(text)
	b.checkQuiet()
}

// still counts the handlers that have not returned.
func (b *book) still() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running
}
