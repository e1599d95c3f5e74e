package client

import (
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

const (
	// beatSilence is how long a beat may go unanswered before another node is tried: the node may be cut off from its
	// leader while the stream stays open.
	beatSilence = 3 * limits.BeatEvery
	// hearSilence is how long a beat may go unacknowledged while a lease has a grace (SPEC §16.7).
	hearSilence = 2500 * time.Millisecond
)

// beginBeats makes the first beat of a connection due at once.
func (t *leaseTable) beginBeats() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.beaten, t.said = t.worker.now(), 0
}

// beatSent records a beat about to be sent, with the local time before sending it (SPEC §3.9), and reports whether the
// node has been silent too long.
func (t *leaseTable) beatSent(now time.Duration) (beat *rotav1.Beat, silent bool) {
	t.mu.Lock()
	defer t.unlock()
	for _, sent := range t.beats {
		if now-sent >= beatSilence {
			return nil, true
		}
	}
	t.beaten, t.said = now, t.beatEvery()
	t.beatSequence++
	t.beats[t.beatSequence] = now
	return &rotav1.Beat{Sequence: t.beatSequence, Logs: t.logs(), NextMs: t.said.Milliseconds()}, false
}

// overdue reports whether a beat is due, and whether the last acknowledged one is so old that the worker leaves the
// node.
func (t *leaseTable) overdue(now time.Duration) (beat, unheard bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return now >= t.beatDue(), now >= t.unheardAt()
}

// beatDue returns when the next beat is due: never later than the latest beat announced. A lease, or an unanswered
// beat, makes it due sooner.
func (t *leaseTable) beatDue() time.Duration {
	if closed(t.superseded) {
		return farFuture // beats of a session that is over get no answer
	}
	every := t.beatEvery()
	if len(t.beats) > 0 {
		every = limits.BeatEvery
	}
	return t.beaten + min(t.said, every)
}

// beatEvery returns the interval between answered beats: as the cluster asks for, and half of that while the worker
// holds a lease, unless the lease has a grace or something to log (SPEC §3.9).
func (t *leaseTable) beatEvery() time.Duration {
	every := min(t.idleEvery, limits.MaxBeatIdle)
	if len(t.leases) > 0 {
		every /= 2
	}
	if every <= limits.BeatEvery || t.graced() || t.logging() {
		return limits.BeatEvery
	}
	return every
}

// logging reports whether a running handler has logged anything.
func (t *leaseTable) logging() bool {
	for _, l := range t.leases {
		if l.phase == running && l.log.Load() != nil {
			return true
		}
	}
	return false
}

// graced reports whether a lease has a grace that its node's silence may end (SPEC §16.7).
func (t *leaseTable) graced() bool {
	for _, l := range t.leases {
		if l.assignment.Grace > 0 && l.phase != reporting && l.lost == nil {
			return true
		}
	}
	return false
}

// logs returns the handlers' output since the previous beat, as much as fits one beat.
func (t *leaseTable) logs() (logs []*rotav1.LogPart) {
	room := limits.MaxLogsBeat
	for _, l := range t.leases {
		w := l.log.Load()
		if w == nil || l.phase != running {
			continue
		}
		for _, part := range w.Since(l.logSent) {
			if room -= len(part.Text) + len(l.assignment.Lease.ID); room < 0 {
				return logs
			}
			logs = append(logs, words.LoggedToWire(&peer.Logged{Lease: l.assignment.Lease.ID, Part: part}))
			l.logSent = part.End()
		}
	}
	return logs
}

// beat handles the answer to a beat of this connection.
func (t *leaseTable) beat(answer *rotav1.BeatAnswer) bool {
	sequence, clock := answer.GetSequence(), rota.Clock(answer.GetClockMs())
	t.mu.Lock()
	sent, ok := t.beats[sequence]
	t.idleEvery = time.Duration(answer.GetEveryMs()) * time.Millisecond
	for s := range t.beats {
		if s <= sequence && ok { // older ones add nothing: their answers may be missing
			delete(t.beats, s)
		}
	}
	t.mu.Unlock()
	if ok {
		t.beatAnswered(viewpoint{known: true, sent: sent, clock: clock, heard: sent}) // its node received it, too
	}
	return ok
}

// heard handles the node's receipt for a beat of this connection. Leases that ended by the earlier view stay ended
// (H23).
func (t *leaseTable) heard(sequence uint64) {
	t.mu.Lock()
	sent, ok := t.beats[sequence]
	if ok {
		t.heardSequence = max(t.heardSequence, sequence)
	}
	t.mu.Unlock()
	if ok {
		t.beatAnswered(viewpoint{heard: sent})
	}
}

// unheardAt returns the local time at which the worker leaves a silent node because of leases with a grace; farFuture
// without any.
func (t *leaseTable) unheardAt() time.Duration {
	at := farFuture
	for sequence, sent := range t.beats {
		if sequence > t.heardSequence {
			at = min(at, sent+hearSilence)
		}
	}
	if at != farFuture && !t.graced() {
		return farFuture
	}
	return at
}
