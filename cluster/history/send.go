package history

import (
	"context"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// scanEvery is how often a follower of whose filter nothing comes is notified how
// far the node has looked: sooner where scanShare of what is retained went by, so that
// its place is never older than all.
const (
	scanEvery = 5 * time.Second
	scanShare = 8
	// idleEvery is how often a follower that is sent nothing else is sent its position: proxies cut streams that are
	// idle for longer, HAProxy by default after 50 s.
	idleEvery = 15 * time.Second
)

// eventSender hands batches to one follower's send, in a goroutine of its own: what
// blocks there can be left behind.
type eventSender struct {
	ev  *Events
	out chan peer.EventBatch
	// done has the first error of send, or nil after out was closed.
	done chan error
	gone chan struct{}
	// ended is closed as the goroutine ends.
	ended chan struct{}
	// stuck: a batch was not sent in its time.
	stuck bool
	// last is the last event that was handed over, before the last of the batch
	// before: all up to that was sent.
	last, before rota.EventID
	// seen is up to where was looked and nothing was selected since the last batch,
	// zero if that went to the end; passed counts those events, due is when the
	// follower is notified.
	seen   rota.EventID
	passed uint64
	due    *time.Timer
	// idle is when the follower is sent its position at the latest.
	idle *time.Timer
}

func (ev *Events) newSender(send func(peer.EventBatch) error) *eventSender {
	s := &eventSender{ev: ev, out: make(chan peer.EventBatch), done: make(chan error, 1), gone: make(chan struct{}),
		ended: make(chan struct{}), due: time.NewTimer(scanEvery), idle: time.NewTimer(ev.idleEvery)}
	go func() {
		defer close(s.ended)
		for {
			select {
			case batch, more := <-s.out:
				if !more {
					s.done <- nil
					return
				}
				if err := send(batch); err != nil {
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

// begin says where the reading begins.
func (s *eventSender) begin(ctx context.Context, after rota.EventID) error {
	s.seen = after
	return s.put(ctx, nil)
}

// took notes that a stretch of events was looked at, of which some were selected,
// and hands those over as soon as the batch before was sent.
func (s *eventSender) took(ctx context.Context, looked, some []rota.ServedEvent) error {
	s.seen, s.passed = looked[len(looked)-1].ID, s.passed+uint64(len(looked))
	if len(some) > 0 || s.passed >= max(s.ev.retained/scanShare, 1) {
		return s.hand(ctx, some, len(some) < len(looked))
	}
	select {
	case <-s.due.C:
		return s.put(ctx, nil)
	default:
		return nil
	}
}

// rest fires when the follower is to be sent its position, while nothing happens: soon where the node has looked further.
func (s *eventSender) rest() <-chan time.Time {
	if s.seen.IsZero() {
		return s.idle.C
	}
	return s.due.C
}

// put hands a batch over, with how far was looked.
func (s *eventSender) put(ctx context.Context, events []rota.ServedEvent) error {
	return s.hand(ctx, events, false)
}

// hand is put, of events that may be this follower's own.
func (s *eventSender) hand(ctx context.Context, events []rota.ServedEvent, own bool) error {
	late := time.NewTimer(s.ev.sendMost)
	defer late.Stop()
	position := s.seen
	if position.IsZero() {
		position = s.last
	}
	select {
	case s.out <- peer.EventBatch{Events: events, Scanned: position, Own: own}:
		s.before, s.last = s.last, position
		s.seen, s.passed = rota.EventID{}, 0
		s.due.Reset(scanEvery)
		s.idle.Reset(s.ev.idleEvery)
		return nil
	case err := <-s.done:
		return err
	case <-late.C:
		s.stuck = true
		return s.tooSlow()
	case <-ctx.Done():
	case <-s.ev.host.Life.Done():
	}
	return s.ev.host.ended(ctx, "sending events")
}

// tooSlow names where to go on: nobody but the consumer knows how much of the batch
// that is being sent arrived.
func (s *eventSender) tooSlow() error {
	where := "the last event that arrived"
	if !s.before.IsZero() {
		where += ", " + s.before.String() + " or later"
	}
	return rota.Refusef(rota.KindExhausted, "events", "this consumer is too slow, nothing was taken for %s: resume after %s",
		s.ev.sendMost, where)
}

// finish waits until the last batch is sent.
func (s *eventSender) finish(ctx context.Context) error {
	s.due.Stop()
	s.idle.Stop()
	close(s.out)
	select {
	case err := <-s.done:
		return err
	case <-ctx.Done():
		return s.ev.host.ended(ctx, "sending events")
	}
}

// abandon ends the sender. It waits for a batch that is being sent, unless that is stuck or
// ctx has ended: such a batch is left to itself.
func (s *eventSender) abandon(ctx context.Context) {
	s.due.Stop()
	s.idle.Stop()
	close(s.gone)
	if s.stuck {
		return
	}
	late := time.NewTimer(s.ev.sendMost)
	defer late.Stop()
	select {
	case <-s.ended:
	case <-late.C:
	case <-ctx.Done():
	case <-s.ev.host.Life.Done():
	}
}

// enter counts a follower.
func (l *eventLog) enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.followers >= followersMost {
		e := rota.Refusef(rota.KindExhausted, "events", "%d consumers follow events on this node: no more are taken, ask another",
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
