package cluster

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// brokenStream is a worker's stream that ended at this node (SPEC §16.7). No beat of it
// is answered any more, and that is all that this node knows of the worker.
type brokenStream struct {
	session    rota.Session
	connection uint64
	at         time.Time
}

const (
	// brokenFor is how long a worker may take for another connection here before the
	// leader is told, brokenEvery how often it is told until the state shows it.
	brokenFor   = 2 * time.Second
	brokenEvery = 500 * time.Millisecond
)

// brokenLoop tells the leader of streams that ended here.
func (ch *chores) brokenLoop() {
	tick := time.NewTicker(brokenEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			ch.tellBroken(ch.n.life)
		case <-ch.n.life.Done():
			return
		}
	}
}

func (ch *chores) tellBroken(ctx context.Context) {
	ends := ch.findBroken(time.Now())
	if len(ends) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rota.BeatEvery)
	defer cancel()
	if _, err := ch.beats.toLeader(ctx, ends); err != nil {
		ch.n.log.Debug("the leader was not told of streams that ended", "streams", len(ends), "error", err)
	}
}

// findBroken lists what the state does not show yet, and forgets what it does.
func (ch *chores) findBroken(now time.Time) (ends []rota.Beat) {
	hub := ch.n.replica.hub
	ch.n.replica.look(func(s *fsm.View) {
		hub.mu.Lock()
		defer hub.mu.Unlock()
		for id, b := range hub.broken {
			session, connection, broken := s.Connection(id)
			switch {
			case session != b.session || connection != b.connection || broken:
				delete(hub.broken, id)
			case now.Sub(b.at) >= brokenFor:
				ends = append(ends, rota.Beat{Worker: id, Session: b.session, Broken: b.connection})
			}
		}
	})
	slices.SortFunc(ends, func(a, b rota.Beat) int { return cmp.Compare(a.Worker, b.Worker) })
	return ends[:min(len(ends), rota.MaxFiringsPerSweep)]
}

// hearEnd adds to ops what a stream's end makes of its worker, nothing where the worker
// has another connection by now.
func hearEnd(s *fsm.View, b rota.Beat, ops []*fsmpb.Op) []*fsmpb.Op {
	session, connection, broken := s.Connection(b.Worker)
	if session != b.Session || connection != b.Broken || broken {
		return ops
	}
	return append(ops, &fsmpb.Op{Op: &fsmpb.Op_Disconnect{Disconnect: &fsmpb.Disconnect{
		Worker: string(b.Worker), Session: uint64(b.Session), Connection: b.Broken}}})
}
