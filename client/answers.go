package client

import (
	"context"
	"log/slog"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// answered handles the outcomes of a batch.
func (t *leaseTable) answered(sequence uint64, refusal *rota.Error, answers []peer.LeaseAnswer) {
	t.mu.Lock()
	defer t.unlock()
	now := t.worker.now()
	batch := t.out.landed(sequence)
	switch {
	case batch == nil:
		return
	case refusal == nil && len(answers) != len(batch):
		refusal = rota.Refusef(rota.KindInternal, "", "%d answers to %d commands", len(answers), len(batch))
		fallthrough
	case refusal != nil:
		t.log.Debug("commands have no outcome, sending them again", "commands", len(batch), "err", refusal)
		t.out.again(batch)
		t.out.notBefore = now + retryDelay(2, refusal.RetryAfter)
	default:
		var again []*command
		for i, c := range batch {
			if t.settled(c, &answers[i], now) {
				continue
			}
			c.tries++
			again = append(again, c)
			t.out.notBefore = max(t.out.notBefore, now+retryDelay(2, answers[i].Err.RetryAfter))
		}
		t.out.again(again)
	}
	t.startMore(now)
	if len(t.out.queue) > 0 || t.farewell {
		notify(t.sendWake)
	}
}

// settled handles the outcome of one command, or reports false if there is none yet.
func (t *leaseTable) settled(c *command, a *peer.LeaseAnswer, now time.Duration) bool {
	l := c.lease
	if c.dropped {
		return true
	}
	if a.Err != nil && unsettled(a.Err.Kind) && (a.Err.Kind != rota.KindInternal || c.tries < maxTries) {
		return false
	}
	// An answer that arrives after the lease ended by the view in force does not save the lease.
	t.expired(l, now)
	switch c.Verb {
	case rota.VerbAck:
		l.ack = nil
		t.acknowledged(l, c, a, now)
	case rota.VerbRenew:
		l.renew = nil
		l.renewNext = now + max(minRenew, l.assignment.RenewEvery/4)
		t.acknowledged(l, c, a, now)
	case rota.VerbProgress:
		l.progress = nil
		if l.progressHeld != nil {
			t.watchSoon()
		}
	default:
		t.reported(l, c, a)
	}
	return true
}

// unsettled reports whether another try may have another outcome.
func unsettled(k rota.Kind) bool {
	return k == rota.KindUnavailable || k == rota.KindTimeout || k == rota.KindExhausted || k == rota.KindInternal
}

// acknowledged handles the answer to an ack or a renewal.
func (t *leaseTable) acknowledged(l *lease, c *command, a *peer.LeaseAnswer, now time.Duration) {
	switch {
	case l.phase == reporting || l.lost != nil:
	case a.Err == nil:
		ordinal := int32(0)
		if c.Verb == rota.VerbRenew {
			ordinal = c.Ordinal
		}
		t.extend(l, a.Deadline, max(a.Renewals, ordinal))
		t.wakeFor(l, now)
	case a.Err.Kind == rota.KindStale || a.Err.Kind == rota.KindNotFound:
		t.lose(l, &LostError{Text: "it is no longer this worker's: " + a.Err.Text}, false)
	default:
		t.refused(l, c, a.Err)
	}
}

// refused handles a refused ack or renewal of a lease that this worker may still hold. A Conflict ends renewals, as the
// queue's policy sets; any other refusal is a bug in the worker or the cluster.
func (t *leaseTable) refused(l *lease, c *command, err *rota.Error) {
	level := slog.LevelWarn
	if c.Verb == rota.VerbRenew {
		l.renewOver = true
		if err.Kind == rota.KindConflict {
			level = slog.LevelInfo
		}
	} else {
		l.ackRefused = err
	}
	t.log.Log(context.Background(), level, c.Verb.String()+" refused, the lease continues to its end", "job",
		string(c.Job), "lease", c.Lease.String(), "err", err)
	t.observe(t.worker.observer.Refused, l, err)
}

// reported handles the answer to an outcome.
func (t *leaseTable) reported(l *lease, c *command, a *peer.LeaseAnswer) {
	if c != l.outcome {
		return
	}
	if a.Err != nil && (a.Err.Kind == rota.KindInvalid && (c.Verb == rota.VerbComplete || c.PauseKey != "") ||
		a.Err.Kind == rota.KindDenied && len(c.Children) > 0) {
		// The queue or the workflow has a lower limit, or the job lacks the key: fail the attempt, with the reason.
		text := lastOf("the outcome was refused: " + a.Err.Error())
		l.outcome = t.put(l, peer.LeaseCommand{Verb: rota.VerbFail, Text: text, Log: c.Log, Costs: c.Costs})
		return
	}
	if a.Err != nil && a.Err.Kind == rota.KindStale && c.Verb != rota.VerbDecline && closed(t.superseded) {
		// The job belongs to the new process; report that this one has stopped.
		l.outcome = t.put(l, peer.LeaseCommand{Verb: rota.VerbDecline, Text: "the outcome came after a takeover",
			Log: c.Log, Costs: c.Costs})
		return
	}
	var err error
	if a.Err != nil {
		err = a.Err
		t.log.Warn("outcome refused", "job", string(c.Job), "verb", c.Verb.String(), "err", err)
	}
	if f := t.worker.observer.Reported; f != nil {
		t.news = append(t.news, observation{f: f, lease: l, verb: c.Verb, err: err})
	}
	t.forget(l)
}

// beatAnswered applies a new view of time. Leases that ended by the old view stay ended (H23).
func (t *leaseTable) beatAnswered(p viewpoint) {
	t.mu.Lock()
	defer t.unlock()
	now := t.worker.now()
	for _, l := range t.leases {
		t.expired(l, now)
	}
	known := t.point.known
	t.point = t.point.newer(p)
	if t.point.known != known {
		t.watchSoon()
	}
	t.startMore(now)
}

// tick ends leases that ran out, requests renewals, and schedules itself again if there is more to do.
func (t *leaseTable) tick() {
	t.mu.Lock()
	if t.watcher == nil {
		t.mu.Unlock()
		return
	}
	t.ticks.Add(1)
	defer t.ticks.Done()
	defer t.unlock()
	now := t.worker.now()
	t.startMore(now)
	t.nextTick = t.look(now)
	t.watcher.Reset(max(0, t.nextTick-now))
}

// look does the work of tick and returns when to look again.
func (t *leaseTable) look(now time.Duration) (at time.Duration) {
	at = farFuture
	if len(t.leases) > 0 {
		at = now + maxWatch
	}
	if t.sleeps != 0 && now >= min(t.sleeps, t.beatDue()) {
		notify(t.sendWake) // its timer is late, or a handler has begun to log
	}
	for _, l := range t.leases {
		if l.phase == reporting && t.draining {
			if give := t.giveUpAt(l); now < give {
				at = min(at, give)
			} else {
				t.giveUp(l)
			}
			continue
		}
		if l.phase == reporting || l.lost != nil || !t.point.known || t.expired(l, now) {
			continue
		}
		if now >= l.end(t.point) {
			continue
		}
		if now >= l.tooLate(t.point) {
			t.decline(l, "no slot came free before its max_runtime was about to end")
			continue
		}
		at = min(at, l.end(t.point), l.tooLate(t.point), t.renewDue(l, now), t.progressDue(l, now))
	}
	return at
}

// renewDue requests a renewal when it is due (SPEC §8.2): waiting leases are renewed like running ones, without the
// handler.
func (t *leaseTable) renewDue(l *lease, now time.Duration) time.Duration {
	if !l.renewable() {
		return farFuture
	}
	at := l.renewAt(t.point)
	if at > now {
		return at
	}
	l.renew = t.put(l, peer.LeaseCommand{Verb: rota.VerbRenew, Ordinal: l.renewals + 1})
	return farFuture
}

// progressDue sends the held report once a second has passed since the last one.
func (t *leaseTable) progressDue(l *lease, now time.Duration) time.Duration {
	if l.progressHeld == nil || l.progress != nil || l.phase != running {
		return farFuture
	}
	if l.progressNext > now {
		return l.progressNext
	}
	c := *l.progressHeld
	c.Costs = l.costs
	l.progressHeld, l.progressNext = nil, now+progressEvery
	l.progress = t.put(l, c)
	return farFuture
}

const (
	// maxWatch bounds how late an end is detected where timers do not count suspended time (SPEC §3.5): well within
	// the view's margin.
	maxWatch  = 500 * time.Millisecond
	farFuture = time.Duration(1<<63 - 1)
)
