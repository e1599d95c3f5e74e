package transport

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

const (
	// outboxMessages bounds what waits for a worker, each at most a message.
	outboxMessages = 16
	// slowConsumer is how long the outbox may be full without a message leaving.
	slowConsumer = 10 * time.Second
	// noticesBytes leaves room for the envelope in a message of notices.
	noticesBytes = rota.MaxMessageBytes - 64
)

// outbox is what waits to be sent to a worker. Only send takes from it.
type outbox struct {
	queue  chan outgoing
	sent   atomic.Uint64
	sender chan struct{} // closed when send has ended
}

// outgoing is a message, or a mark that tells when all before it are sent.
type outgoing struct {
	message *rotav1.WorkResponse
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
			if err := w.stream.Send(out.message); err != nil {
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
func (w *workStream) push(message *rotav1.WorkResponse) {
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
			w.fail(&rota.Error{Kind: rota.Exhausted, Subject: "stream", RetryAfter: comeBack,
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
		for _, message := range splitNotices(notices) {
			w.push(&rotav1.WorkResponse{Message: &rotav1.WorkResponse_Notices{Notices: message}})
		}
		if w.ctx.Err() != nil {
			return
		}
	}
}

// splitNotices puts notices into as few messages as their bytes allow. A lease's
// end never overtakes its beginning: the order between messages is kept, and
// within one a worker reads assigned, revoked, ended.
func splitNotices(notices []rota.Notice) []*rotav1.Notices {
	if len(notices) == 0 {
		return nil
	}
	messages := []*rotav1.Notices{}
	var current *rotav1.Notices
	size := 0
	for i := range notices {
		one := words.NoticesToWire(notices[i : i+1])
		n := proto.Size(one)
		if current == nil || size+n > noticesBytes {
			current, size = one, n
			messages = append(messages, one)
			continue
		}
		current.Assigned = append(current.Assigned, one.GetAssigned()...)
		current.Revoked = append(current.Revoked, one.GetRevoked()...)
		current.Ended = append(current.Ended, one.GetEnded()...)
		current.Draining = current.Draining || one.GetDraining()
		size += n
	}
	return messages
}
