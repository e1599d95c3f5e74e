package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// maxForwards is how many calls with workers' commands to the leader are in progress at a time. Commands that arrive
// meanwhile share the next call: a call costs two nodes far more than a command in it, and each of a thousand workers
// sends its own. With one or two, commands would wait for a call to return although they could be in the same entry.
const maxForwards = 3

// forwardBatcher lets workers' commands share calls on their way to the leader. Other operations are sent alone: a
// fault in one of them may be an error of the whole call.
type forwardBatcher struct {
	mu       sync.Mutex
	inFlight int
	waiting  []*request
}

// request is one caller's commands, waiting for a call and its result.
type request struct {
	b        batch
	deadline time.Time // zero for none
	done     chan forwarded
}

type forwarded struct {
	reply
	err error
}

// joins reports whether operations may share a call.
func joins(ops []*fsmpb.Op) bool {
	return !slices.ContainsFunc(ops, func(op *fsmpb.Op) bool { return op.GetLease() == nil })
}

// forwardBatched is forward together with other waiting commands.
func (pr *proposer) forwardBatched(ctx context.Context, b batch) (reply, error) {
	pr.batcher.mu.Lock()
	if pr.batcher.inFlight < maxForwards {
		pr.batcher.inFlight++
		pr.batcher.mu.Unlock()
		defer pr.forwardNext()
		return pr.forward(ctx, b)
	}
	p := &request{b: b, done: make(chan forwarded, 1)}
	p.deadline, _ = ctx.Deadline()
	pr.batcher.waiting = append(pr.batcher.waiting, p)
	pr.batcher.mu.Unlock()
	select {
	case r := <-p.done:
		return r.reply, r.err
	case <-ctx.Done():
	}
	if pr.batcher.withdraw(p) {
		return reply{}, fault.Deadline(ctx, "waiting for a call to the leader")
	}
	select {
	case r := <-p.done:
		return r.reply, r.err
	default:
		return reply{}, fault.Unknown(ctx.Err())
	}
}

// withdraw removes a waiting request; it reports false if its call is already made.
func (fb *forwardBatcher) withdraw(p *request) bool {
	fb.mu.Lock()
	defer fb.mu.Unlock()
	at := slices.Index(fb.waiting, p)
	if at >= 0 {
		fb.waiting = slices.Delete(fb.waiting, at, at+1)
	}
	return at >= 0
}

// forwardNext passes a call's slot on, to as many waiting requests as one entry may hold.
func (pr *proposer) forwardNext() {
	pr.batcher.mu.Lock()
	defer pr.batcher.mu.Unlock()
	if len(pr.batcher.waiting) == 0 {
		pr.batcher.inFlight--
		return
	}
	k, ops, size := 0, 0, 0
	for ; k < len(pr.batcher.waiting); k++ {
		b := pr.batcher.waiting[k].b
		if ops, size = ops+len(b.ops), size+len(b.encoded); k > 0 &&
			(ops > limits.MaxEntryOps || size > limits.MaxEntryBytes) {
			break
		}
	}
	all := slices.Clone(pr.batcher.waiting[:k])
	pr.batcher.waiting = slices.Delete(pr.batcher.waiting, 0, k)
	go pr.forwardAll(all) // ends with the node's life
}

// forwardAll makes one call for several callers. It continues while at least one of them waits.
func (pr *proposer) forwardAll(all []*request) {
	defer pr.forwardNext()
	var b batch
	latest := all[0].deadline
	for _, p := range all {
		b.ops, b.encoded = append(b.ops, p.b.ops...), append(b.encoded, p.b.encoded...)
		if latest.IsZero() || p.deadline.IsZero() {
			latest = time.Time{}
		} else if p.deadline.After(latest) {
			latest = p.deadline
		}
	}
	ctx := pr.n.life
	if !latest.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, latest)
		defer cancel()
	}
	r, err := pr.forward(ctx, b)
	at := 0
	for _, p := range all {
		own := forwarded{reply{index: r.index}, err}
		if err == nil {
			own.outcomes = r.outcomes[at : at+len(p.b.ops)]
		}
		at += len(p.b.ops)
		p.done <- own
	}
}
