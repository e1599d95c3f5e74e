package transport

import (
	"context"
	"sync"
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
)

const (
	// outboxMessages bounds what waits for a worker, each at most a message.
	outboxMessages = 16
	// slowConsumer is how long a worker may take to take one message.
	slowConsumer = 10 * time.Second
	// closePatience is how long a stream that ends waits for a Send that its worker does not take, which ends
	// only when the handler has returned.
	closePatience = time.Second
	// noticesBytes is the most that a message of notices has.
	noticesBytes = limits.MaxMessageBytes - 64
)

// outbox is what waits to be sent to a worker. Whoever has a message sends it, and what comes meanwhile: a
// goroutine for it alone would have to be woken for each.
type outbox struct {
	// room has a place for each message that waits or is being sent.
	room chan struct{}

	// slow ends the stream, slowConsumer after a Send began that has not ended.
	slow *time.Timer

	// notifying is held from taking notices until they are put here, which keeps them in order.
	notifying sync.Mutex

	mu      sync.Mutex
	sending bool
	waiting []outgoing
}

// outgoing is a message, or a mark that tells when all before it are sent.
type outgoing struct {
	message any // *rotav1.WorkResponse, or *words.Written
	mark    chan<- struct{}
}

// makeOutbox makes it for a stream whose context stands.
func (w *workStream) makeOutbox() {
	w.room = make(chan struct{}, outboxMessages)
	w.slow = time.AfterFunc(slowConsumer, func() {
		w.fail(&rota.Error{Kind: rota.KindExhausted, Subject: "stream", RetryAfter: comeBack,
			Text: "slow consumer: " + slowConsumer.String() + " passed without reading a message; connect again"})
	})
	w.slow.Stop()
}

// put leaves what is to be sent to the goroutine that sends; false where the caller has to.
func (o *outbox) put(out outgoing) (left bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if left = o.sending; left {
		o.waiting = append(o.waiting, out)
	}
	o.sending = true
	return left
}

// next takes what waits longest; with nothing there the goroutine that sends is done.
func (o *outbox) next() (out outgoing, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sending = len(o.waiting) > 0; !o.sending {
		return outgoing{}, false
	}
	out, o.waiting = o.waiting[0], o.waiting[1:]
	return out, true
}

// send sends a message and all that comes meanwhile, as long as the stream stands: after that nothing is sent.
// A worker that does not take a message for slowConsumer is cut off (SPEC §12.3): it would hold memory for ever, and
// its leases are given to it again when it returns.
func (w *workStream) send(out outgoing) {
	for more := true; more; out, more = w.next() {
		if out.mark != nil {
			close(out.mark)
			continue
		}
		if w.ctx.Err() != nil {
			return
		}
		w.slow.Reset(slowConsumer)
		err := w.stream.SendMsg(out.message)
		w.slow.Stop()
		if err != nil {
			w.fail(err)
			return
		}
		<-w.room
	}
}

// push has a message sent. While the outbox is full it waits.
func (w *workStream) push(message any) {
	select {
	case w.room <- struct{}{}:
	case <-w.ctx.Done():
		return
	}
	if out := (outgoing{message: message}); !w.put(out) {
		w.send(out)
	}
}

// flush waits until all that was pushed before is sent.
func (w *workStream) flush(ctx context.Context) error {
	mark := make(chan struct{})
	if out := (outgoing{mark: mark}); !w.put(out) {
		w.send(out)
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
		if err := w.session.Await(w.ctx); err != nil {
			w.fail(err)
			return
		}
		w.pushNotices()
		if w.ctx.Err() != nil {
			return
		}
	}
}

// pushNotices sends the notices that wait, in order.
func (w *workStream) pushNotices() {
	w.notifying.Lock()
	defer w.notifying.Unlock()
	for _, message := range words.WriteNotices(w.session.Take(), noticesBytes) {
		w.push(message)
	}
	w.pushHeard(w.beaten.Load()) // it may have come before the first lease with a grace
}

// pushHeard notifies the worker that a beat was received, if it needs to know and does not yet.
func (w *workStream) pushHeard(sequence uint64) {
	if w.session.Graced() && w.acknowledged.Swap(sequence) != sequence {
		w.push(&rotav1.WorkResponse{Message: &rotav1.WorkResponse_Heard{Heard: &rotav1.Heard{Sequence: sequence}}})
	}
}
