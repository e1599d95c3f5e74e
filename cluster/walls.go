package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
)

// median of values that are there; the lower one of an even count.
func median(values []int64) int64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

// wallsMost bounds the wait for wall clocks at the beginning of a leadership,
// wallsGrace the wait for further ones once a majority has told its own: nothing
// is decided meanwhile.
const (
	wallsMost  = 200 * time.Millisecond
	wallsGrace = 10 * time.Millisecond
)

// readWalls asks the voters for their wall clocks, for BeginTerm: nil where no
// majority answers at once (SPEC §3.8).
func (w *watcher) readWalls(ctx context.Context) []int64 {
	ctx, cancel := context.WithTimeout(ctx, wallsMost)
	defer cancel()
	servers := w.n.membership.servers()
	answers := make(chan int64, len(servers))
	voters := 0
	var asked sync.WaitGroup
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		to, ok := w.n.membership.address(rota.NodeID(s.ID))
		if rota.NodeID(s.ID) == w.n.cfg.Node || !ok {
			continue
		}
		asked.Go(func() {
			if in, err := w.n.peers.Inspect(ctx, to, nil); err == nil {
				answers <- in.WallMs
			}
		})
	}
	go func() {
		asked.Wait()
		close(answers)
	}()
	walls, grace := []int64{w.n.wall().UnixMilli()}, (<-chan time.Time)(nil)
	for {
		if len(walls) > voters/2 && grace == nil {
			grace = time.After(wallsGrace)
		}
		select {
		case wall, more := <-answers:
			if more {
				walls = append(walls, wall)
				continue
			}
		case <-grace:
		}
		if len(walls) <= voters/2 {
			return nil
		}
		return walls
	}
}

// setWalls gives the leadership fresh wall clocks of a majority of voters; the
// next entry carries them, at most one a second.
func (l *leadership) setWalls(walls []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.walls, l.wallsAt = walls, l.n.sinceBoot()
}
