package transport

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
)

const (
	// outboxMessages bounds what waits for a worker, each at most a message.
	outboxMessages = 16
	// slowConsumer is how long the outbox may be full without a message leaving.
	slowConsumer = 10 * time.Second
	// noticesBytes is the most that a message of notices has.
	noticesBytes = limits.MaxMessageBytes - 64
)

// outbox is what waits to be sent to a worker. Only send takes from it.
type outbox struct {
	queue  chan outgoing
	sent   atomic.Uint64
	sender chan struct{} // closed when send has ended
}

// outgoing is a message, or a mark that tells when all before it are sent.
type outgoing struct {
	message any // *rotav1.WorkResponse, or *words.Written
	mark    chan<- struct{}
}

func newOutbox() outbox {
	return outbox{queue: make(chan outgoing, outboxMessages), sender: make(chan struct{})}
}

// send owns stream.Send until the stream ends.
func (w *workStream) send() {
	defer close(w.sender)
	for {
		select {
		case out := <-w.queue:
			if out.mark != nil {
				close(out.mark)
				continue
			}
			if err := w.stream.SendMsg(out.message); err != nil {
				w.fail(err)
				return
			}
			w.sent.Add(1)
		case <-w.ctx.Done():
			return
		}
	}
}

// push hands a message to the sender. While the outbox is full it waits; a
// worker that takes nothing for slowConsumer is cut off (SPEC §12.3): it would
// hold memory for ever, and its leases are given to it again when it returns.
func (w *workStream) push(message any) {
	select {
	case w.queue <- outgoing{message: message}:
		return
	default:
	}
	sent, patience := w.sent.Load(), time.NewTimer(slowConsumer)
	defer patience.Stop()
	for {
		select {
		case w.queue <- outgoing{message: message}:
			return
		case <-w.ctx.Done():
			return
		case <-patience.C:
			if now := w.sent.Load(); now != sent {
				sent = now
				patience.Reset(slowConsumer)
				continue
			}
			w.fail(&rota.Error{Kind: rota.KindExhausted, Subject: "stream", RetryAfter: comeBack,
				Text: "slow consumer: " + slowConsumer.String() + " passed without a message taken, connect again"})
			return
		}
	}
}

// flush waits until all that was pushed before is sent.
func (w *workStream) flush(ctx context.Context) error {
	mark := make(chan struct{})
	select {
	case w.queue <- outgoing{mark: mark}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-mark:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pump carries notices to the worker. While the outbox is full nothing is asked
// for, and the core gathers more for the next time.
func (w *workStream) pump() {
	for {
		notices, err := w.session.Notices(w.ctx)
		if err != nil {
			w.fail(err)
			return
		}
		for _, message := range words.WriteNotices(notices, noticesBytes) {
			w.push(message)
		}
		if w.ctx.Err() != nil {
			return
		}
	}
}
