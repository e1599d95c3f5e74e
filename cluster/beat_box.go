package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/caller"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// beatBox collects the beats of the workers on this node and sends them to the leader together (SPEC §3.9). Liveness is
// kept outside the log: only changes of status are entries.
type beatBox struct {
	n          *base
	leader     *leaderWatch
	terms      *terms
	membership *membership
	// atLeader processes beats if this node is the leader.
	atLeader func(context.Context, []peer.Beat) (peer.BeatAnswer, error)
	mu       sync.Mutex
	waiting  []waitingBeat
}

// beat reports one worker's sign of life and waits for the clock.
func (b *beatBox) beat(ctx context.Context, beat peer.Beat) (peer.Beaten, error) {
	w := waitingBeat{beat, make(chan beatResult, 1)}
	b.mu.Lock()
	b.waiting = append(b.waiting, w)
	first := len(b.waiting) == 1
	b.mu.Unlock()
	if first {
		time.AfterFunc(beatGather, b.flush)
	}
	select {
	case r := <-w.done:
		return r.Beaten, r.err
	case <-ctx.Done():
		return peer.Beaten{}, fault.Deadline(ctx, "waiting for the cluster clock")
	case <-b.n.stopped:
		return peer.Beaten{}, fault.Stopping()
	}
}

func (b *beatBox) flush() {
	b.mu.Lock()
	waiting := b.waiting
	b.waiting = nil
	b.mu.Unlock()
	beats := make([]peer.Beat, len(waiting))
	for i := range waiting {
		beats[i] = waiting[i].beat
	}
	ctx, cancel := context.WithTimeout(b.n.life, limits.BeatEvery*2)
	defer cancel()
	answer, err := b.toLeader(ctx, beats)
	refused := make(map[int32]bool, len(answer.Refused))
	for _, i := range answer.Refused {
		refused[i] = true
	}
	for i, w := range waiting {
		r := beatResult{answer.Beaten, err}
		if refused[int32(i)] {
			r.err = rota.Refusef(rota.KindStale, "session", "session %d of worker %s is over", w.beat.Session,
				w.beat.Worker)
		}
		w.done <- r
	}
}

func (b *beatBox) toLeader(ctx context.Context, beats []peer.Beat) (peer.BeatAnswer, error) {
	if b.terms.leading() != nil {
		return b.atLeader(ctx, beats)
	}
	leading := b.leader.leaderContext()
	to, ok := b.membership.Leader()
	if !ok {
		return peer.BeatAnswer{}, fault.NoLeader(nil)
	}
	ctx, cancel := caller.Until(ctx, leading)
	defer cancel()
	return b.n.peers.Beat(ctx, to, beats)
}

type waitingBeat struct {
	beat peer.Beat
	done chan beatResult
}

type beatResult struct {
	peer.Beaten
	err error
}

// beatGather is how long beats are collected before they are sent together.
const beatGather = 10 * time.Millisecond
