package cluster

import (
	"context"
	"time"

	"github.com/rotasched/rota"
)

// eventSender hands batches to one follower's send, in a goroutine of its own: what
// blocks there can be left behind.
type eventSender struct {
	out chan []rota.ServedEvent
	// done has the first error of send, or nil after out was closed.
	done chan error
	gone chan struct{}
	// last is the last event that was handed over, before the last of the batch
	// before: all up to that was sent.
	last, before rota.EventID
}

func newEventSender(send func([]rota.ServedEvent) error) *eventSender {
	s := &eventSender{out: make(chan []rota.ServedEvent), done: make(chan error, 1), gone: make(chan struct{})}
	go func() {
		for {
			select {
			case events, more := <-s.out:
				if !more {
					s.done <- nil
					return
				}
				if err := send(events); err != nil {
					s.done <- err
					return
				}
			case <-s.gone:
				return
			}
		}
	}()
	return s
}

// put hands a batch over as soon as the one before was sent.
func (s *eventSender) put(ctx context.Context, n *Node, events []rota.ServedEvent) error {
	if len(events) == 0 {
		return nil
	}
	late := time.NewTimer(n.events.sendMost)
	defer late.Stop()
	select {
	case s.out <- events:
		s.before, s.last = s.last, events[len(events)-1].ID
		return nil
	case err := <-s.done:
		return err
	case <-late.C:
		return s.tooSlow(n)
	case <-ctx.Done():
		return ctxError(ctx, "sending events")
	case <-n.stopped:
		return errStopping()
	}
}

// tooSlow names where to go on: nobody but the consumer knows how much of the batch
// that is being sent arrived.
func (s *eventSender) tooSlow(n *Node) error {
	where := "the last event that arrived"
	if !s.before.IsZero() {
		where += ", " + s.before.String() + " or later"
	}
	return rota.Refusef(rota.Exhausted, "events", "this consumer is too slow, nothing was taken for %s: resume after %s",
		n.events.sendMost, where)
}

// finish waits until the last batch is sent.
func (s *eventSender) finish(ctx context.Context) error {
	close(s.out)
	select {
	case err := <-s.done:
		return err
	case <-ctx.Done():
		return ctxError(ctx, "sending events")
	}
}

// abandon leaves what is being sent to itself.
func (s *eventSender) abandon() { close(s.gone) }

// enter counts a follower.
func (l *eventLog) enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.followers >= followersMost {
		e := rota.Refusef(rota.Exhausted, "events", "%d consumers follow events on this node: no more are taken, ask another",
			l.followers)
		e.RetryAfter = time.Second
		return e
	}
	l.followers++
	return nil
}

func (l *eventLog) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.followers--
}

func (l *eventLog) countCut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut++
}
