package cluster

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// leaderChores are the leader's background tasks that need a leadership: it matches, sweeps, and looks for silent
// workers. Followers send it their workers' beats.
type leaderChores struct {
	n     *base
	disk  *diskGate
	terms *terms
	beats *beatBox
}

// Beats processes beats on the leader. The answer waits for the first entry that this leadership stamped after the
// beats arrived and that has been applied: a deposed leader that has not noticed answers nothing.
func (ch *leaderChores) Beats(ctx context.Context, beats []peer.Beat) (peer.BeatAnswer, error) {
	l := ch.terms.leading()
	if l == nil {
		return peer.BeatAnswer{}, fault.NotLeader()
	}
	refused, silent, silenced := ch.hear(l, beats)
	for silenced != nil {
		// The operation that marks such a worker unreachable is already in progress: wait for it, and clear it
		// afterwards.
		select {
		case <-silenced:
		case <-l.ctx.Done():
			return peer.BeatAnswer{}, fault.NotLeader()
		case <-ctx.Done():
			return peer.BeatAnswer{}, fault.Deadline(ctx, "waiting for an entry before the beat")
		}
		refused, silent, silenced = ch.hear(l, beats)
	}
	if err := l.All(ctx, silent); err != nil {
		return peer.BeatAnswer{}, err
	}
	done := l.afterNext()
	if len(refused) == len(beats) { // no other entry may produce an answer
		if err := l.All(ctx, []*fsmpb.Op{replica.BarrierOp()}); err != nil {
			return peer.BeatAnswer{}, err
		}
	}
	select {
	case clock, ok := <-done:
		if !ok {
			return peer.BeatAnswer{}, fault.NotLeader()
		}
		return peer.BeatAnswer{Beaten: peer.Beaten{Clock: clock, Every: l.idleBeat()}, Refused: refused}, nil
	case <-l.ctx.Done():
		return peer.BeatAnswer{}, fault.NotLeader()
	case <-ctx.Done():
		return peer.BeatAnswer{}, fault.Deadline(ctx, "waiting for an entry after the beat")
	}
}

// hear records beats, and returns which sessions have ended and which workers must be cleared of UNREACHABLE. If an
// UNREACHABLE operation is in progress for one of them, it returns a channel that is closed once that has been applied:
// then hear must be called again.
func (ch *leaderChores) hear(l *leadership,
	beats []peer.Beat) (refused []int32, silent []*fsmpb.Op, silenced <-chan struct{}) {
	ch.n.replica.Look(func(s *fsm.View) {
		l.mu.Lock()
		defer l.mu.Unlock()
		clock := s.Head().Clock
		for i, b := range beats {
			if b.Broken != 0 { // not a sign of life, and no caller waits for the clock
				refused = append(refused, int32(i))
				silent = hearEnd(s, b, silent)
				continue
			}
			session, status := s.Session(b.Worker)
			if session != b.Session || session == 0 || status == rota.WorkerRetired {
				refused = append(refused, int32(i))
				continue
			}
			l.heard[b.Worker] = beatHeard{b.Session, clock, min(b.Next, limits.MaxBeatIdle)}
			l.present = true
			if l.silencing[b.Worker] {
				silenced = l.silenced
			}
			if status == rota.WorkerUnreachable {
				silent = append(silent, reachOp(b.Worker, b.Session, true, 0))
			}
		}
	})
	return refused, silent, silenced
}

func reachOp(w rota.WorkerID, s rota.Session, reachable bool, sign rota.Clock) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_Reach{Reach: &fsmpb.Reach{Worker: string(w), Session: uint64(s),
		Reachable:  reachable,
		LastSignMs: int64(sign)}}}
}

// idleBeat returns the beat interval of workers without a lease (SPEC §3.9).
func (l *leadership) idleBeat() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return idleBeat(l.workers)
}

// idleBeat returns the interval for a number of workers.
func idleBeat(workers int) time.Duration {
	return max(limits.BeatEvery, min(time.Duration(workers)*time.Second/limits.BeatsIdle, limits.MaxBeatIdle))
}

// silenceLoop proposes UNREACHABLE for workers whose next beat is 8 s of clock late, counted from their last beat that
// reached a leader, or from BeginTerm if later.
func (ch *leaderChores) silenceLoop(l *leadership) {
	tick := ch.n.ticker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		ch.silenceOnce(l)
		select {
		case <-tick.Tick():
		case <-l.ctx.Done():
			return
		}
	}
}

func (ch *leaderChores) silenceOnce(l *leadership) {
	ops, first := ch.findSilent(l)
	if len(ops) == 0 {
		return
	}
	r := l.propose(l.ctx, ops, true)
	l.mu.Lock()
	close(l.silenced)
	l.silencing, l.silenced = nil, nil
	l.mu.Unlock()
	if r.err == nil {
		ch.n.log.Warn("workers fell silent: their leases end 40 s after their last sign", "workers", len(ops),
			"first", string(first))
	}
}

// findSilent finds workers that have been silent for long enough, and marks them: their beats wait from now on until
// the operation is in the state.
func (ch *leaderChores) findSilent(l *leadership) (ops []*fsmpb.Op, first rota.WorkerID) {
	ch.n.replica.Look(func(s *fsm.View) { ops, first = l.findSilent(s) })
	return ops, first
}

func (l *leadership) findSilent(s *fsm.View) (ops []*fsmpb.Op, first rota.WorkerID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clock := s.Head().Clock
	live := make(map[rota.WorkerID]bool)
	l.present = false
	workers := 0
	silencing := make(map[rota.WorkerID]bool)
	s.LiveWorkers(func(id rota.WorkerID, session rota.Session, status rota.WorkerStatus, since rota.Clock) {
		live[id] = true
		if status != rota.WorkerActive && status != rota.WorkerDraining {
			return
		}
		l.present = true
		workers++
		last := l.lastBeat(id, session, since)
		if clock > last.silentFrom() && len(ops) < limits.MaxFiringsPerSweep {
			ops = append(ops, reachOp(id, session, false, last.clock))
			silencing[id] = true
			first = cmp.Or(first, id)
		}
	})
	l.workers = workers
	for id := range l.heard {
		if !live[id] {
			delete(l.heard, id)
		}
	}
	if len(ops) > 0 {
		l.silencing, l.silenced = silencing, make(chan struct{})
	}
	return ops, first
}

// lastBeat returns a session's last beat in this leadership, no older than the leadership and the worker's current
// status. For a session that has not sent a beat yet it assumes the interval that the previous leader may have set.
func (l *leadership) lastBeat(id rota.WorkerID, session rota.Session, since rota.Clock) beatHeard {
	last, ok := l.heard[id]
	if !ok || last.session != session {
		last = beatHeard{session: session, next: idleBeat(l.workers)}
	}
	last.clock = max(last.clock, l.began, since)
	return last
}

const (
	// brokenFor is how long a worker may take to reconnect here before the leader is notified, brokenEvery how often it
	// is notified until the state shows it.
	brokenFor   = 2 * time.Second
	brokenEvery = 500 * time.Millisecond
)

// brokenLoop reports streams that ended here to the leader.
func (ch *leaderChores) brokenLoop() {
	tick := ch.n.ticker(brokenEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.Tick():
			ch.tellBroken(ch.n.life)
		case <-ch.n.life.Done():
			return
		}
	}
}

func (ch *leaderChores) tellBroken(ctx context.Context) {
	ends := ch.findBroken(time.Now())
	if len(ends) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limits.BeatEvery)
	defer cancel()
	if _, err := ch.beats.toLeader(ctx, ends); err != nil {
		ch.n.log.Debug("streams that ended could not be reported to the leader", "streams", len(ends), "error", err)
	}
}

// findBroken lists ended streams that the state does not show yet, and removes those that it does.
func (ch *leaderChores) findBroken(now time.Time) (ends []peer.Beat) {
	hub := ch.n.replica.Hub
	ch.n.replica.Look(func(s *fsm.View) {
		hub.Mu.Lock()
		defer hub.Mu.Unlock()
		for id, b := range hub.Broken {
			session, connection, broken := s.Connection(id)
			switch {
			case session != b.Session || connection != b.Connection || broken:
				delete(hub.Broken, id)
			case now.Sub(b.At) >= brokenFor:
				ends = append(ends, peer.Beat{Worker: id, Session: b.Session, Broken: b.Connection})
			}
		}
	})
	slices.SortFunc(ends, func(a, b peer.Beat) int { return cmp.Compare(a.Worker, b.Worker) })
	return ends[:min(len(ends), limits.MaxFiringsPerSweep)]
}

// hearEnd appends the operation for a worker whose stream ended, none if the worker has another connection by now.
func hearEnd(s *fsm.View, b peer.Beat, ops []*fsmpb.Op) []*fsmpb.Op {
	session, connection, broken := s.Connection(b.Worker)
	if session != b.Session || connection != b.Broken || broken {
		return ops
	}
	return append(ops, &fsmpb.Op{Op: &fsmpb.Op_Disconnect{Disconnect: &fsmpb.Disconnect{
		Worker: string(b.Worker), Session: uint64(b.Session), Connection: b.Broken}}})
}
