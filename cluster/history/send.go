package history

import (
	"context"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// scanEvery is how often a follower whose filter selects nothing is notified how far the node has read; sooner if
// scanShare of the retained events went by, so that its position never becomes older than all of them.
const (
	scanEvery = 5 * time.Second
	scanShare = 8
	// idleEvery is how often a follower that receives nothing else is sent its position: proxies cut streams that are
	// idle for longer, HAProxy by default after 50 s.
	idleEvery = 15 * time.Second
)

// eventSender passes batches to one follower's send, in its own goroutine, so that a blocked send can be abandoned.
type eventSender struct {
	ev  *Events
	out chan peer.EventBatch
	// done receives the first error of send, or nil after out was closed.
	done chan error
	gone chan struct{}
	// ended is closed when the goroutine ends.
	ended chan struct{}
	// stuck reports that a batch was not sent in time.
	stuck bool
	// last is the last event of the batch passed on most recently. before is the last event of the previous batch:
	// everything up to it was sent.
	last, before rota.EventID
	// seen is the position read since the last batch without selecting anything, zero if that batch reached it; passed
	// counts those events, due fires when the follower is to be notified.
	seen   rota.EventID
	passed uint64
	due    *time.Timer
	// idle fires when the follower must be sent its position at the latest.
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

// begin sends where reading begins.
func (s *eventSender) begin(ctx context.Context, after rota.EventID) error {
	s.seen = after
	return s.put(ctx, nil)
}

// took records that a range of events was read, of which some were selected, and passes those on as soon as the
// previous batch was sent.
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

// rest fires when the follower is to be sent its position while nothing happens: soon if the node has read further.
func (s *eventSender) rest() <-chan time.Time {
	if s.seen.IsZero() {
		return s.idle.C
	}
	return s.due.C
}

// put passes a batch on, with the position read.
func (s *eventSender) put(ctx context.Context, events []rota.ServedEvent) error {
	return s.hand(ctx, events, false)
}

// hand is put for events whose slice may belong to this follower alone.
func (s *eventSender) hand(ctx context.Context, events []rota.ServedEvent, own bool) error {
	late := time.NewTimer(s.ev.maxSend)
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

// tooSlow returns the error with the position to resume from: only the consumer knows how much of the batch in progress
// arrived.
func (s *eventSender) tooSlow() error {
	where := "the last event that arrived"
	if !s.before.IsZero() {
		where += ", " + s.before.String() + " or later"
	}
	return rota.Refusef(rota.KindExhausted, "events",
		"this consumer is too slow: it received nothing for %s; resume after %s", s.ev.maxSend, where)
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

// abandon ends the sender. It waits for a batch in progress, unless that is stuck or ctx has ended; such a batch is
// left behind.
func (s *eventSender) abandon(ctx context.Context) {
	s.due.Stop()
	s.idle.Stop()
	close(s.gone)
	if s.stuck {
		return
	}
	late := time.NewTimer(s.ev.maxSend)
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
	if l.followers >= maxFollowers {
		e := rota.Refusef(rota.KindExhausted, "events",
			"too many consumers: %d follow events on this node; use another node",
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
