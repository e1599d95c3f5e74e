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
	// outboxMessages bounds the pending messages for a worker, each of at most one message size.
	outboxMessages = 16
	// slowConsumer is how long a worker may take to receive one message.
	slowConsumer = 10 * time.Second
	// closePatience is how long an ending stream waits for a Send that its worker does not read, which ends only when
	// the handler has returned.
	closePatience = time.Second
	// noticesBytes is the maximum size of a message of notices.
	noticesBytes = limits.MaxMessageBytes - 64
)

// outbox holds the pending messages for a worker. A goroutine with a message sends it, and any that arrive meanwhile: a
// dedicated goroutine would have to be woken for each.
type outbox struct {
	// room has a slot for each message that is pending or being sent.
	room chan struct{}

	// slow ends the stream when a Send takes longer than slowConsumer.
	slow *time.Timer

	// notifying is held from taking notices until they are queued here, which keeps them in order.
	notifying sync.Mutex

	mu      sync.Mutex
	sending bool
	waiting []outgoing
}

// outgoing is a message, or a mark that signals that all before it are sent.
type outgoing struct {
	message any // *rotav1.WorkResponse, or *words.Written
	mark    chan<- struct{}
}

// makeOutbox creates the outbox of a stream whose context is set.
func (w *workStream) makeOutbox() {
	w.room = make(chan struct{}, outboxMessages)
	w.slow = time.AfterFunc(slowConsumer, func() {
		w.fail(&rota.Error{Kind: rota.KindExhausted, Subject: "stream", RetryAfter: comeBack,
			Text: "slow consumer: " + slowConsumer.String() + " passed without reading a message; connect again"})
	})
	w.slow.Stop()
}

// put queues a message for the sending goroutine. It returns false if there is none and the caller must send.
func (o *outbox) put(out outgoing) (left bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if left = o.sending; left {
		o.waiting = append(o.waiting, out)
	}
	o.sending = true
	return left
}

// next returns the oldest pending message; if there is none, the sending goroutine is done.
func (o *outbox) next() (out outgoing, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sending = len(o.waiting) > 0; !o.sending {
		return outgoing{}, false
	}
	out, o.waiting = o.waiting[0], o.waiting[1:]
	return out, true
}

// send sends a message and all that arrive meanwhile, as long as the stream is open. A worker that does not receive a
// message for slowConsumer is cut off (SPEC §12.3): it would hold memory forever, and it gets its leases again when it
// returns.
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

// push sends or queues a message. It waits while the outbox is full.
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

// flush waits until all earlier messages are sent.
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

// pump carries notices to the worker. While the outbox is full it requests none, and the core collects more for the
// next time.
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

// pushNotices sends the pending notices, in order.
func (w *workStream) pushNotices() {
	w.notifying.Lock()
	defer w.notifying.Unlock()
	for _, message := range words.WriteNotices(w.session.Take(), noticesBytes) {
		w.push(message)
	}
	w.pushHeard(w.beaten.Load()) // a beat may have arrived before the first lease with a grace period
}

// pushHeard notifies the worker that a beat was received, if it needs that and was not notified yet.
func (w *workStream) pushHeard(sequence uint64) {
	if w.session.Graced() && w.acknowledged.Swap(sequence) != sequence {
		w.push(&rotav1.WorkResponse{Message: &rotav1.WorkResponse_Heard{Heard: &rotav1.Heard{Sequence: sequence}}})
	}
}
