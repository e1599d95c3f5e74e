package fault

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// testClockKey names a node's file that moves its wall clock, and testClockTag is the build tag of a binary that reads
// it (internal/server/testclock.go).
const (
	testClockKey = "ROTA_TEST_CLOCK"
	// testDeadKey shortens a node's autopilot delay, with the same tag.
	testDeadKey  = "ROTA_TEST_DEAD_AFTER"
	TestClockTag = "testclock"
)

// hasTestClock reports whether a binary reads the file.
func hasTestClock(binary string) bool {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-tags" {
			return slices.Contains(strings.Split(s.Value, ","), TestClockTag)
		}
	}
	return false
}

// wallClock is the error of one node's wall clock: the sum of the changes by several nemeses, each a line of its file.
type wallClock struct {
	path string
	mu   sync.Mutex
	rows []*wallRow
}

// wallRow is milliseconds ahead, and parts in a million too fast since a moment.
type wallRow struct{ ahead, fast, since int64 }

func (c *wallClock) add(row *wallRow) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows = append(c.rows, row)
	return c.write()
}

func (c *wallClock) remove(row *wallRow) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows = slices.DeleteFunc(c.rows, func(r *wallRow) bool { return r == row })
	return c.write()
}

// right reverts all changes to it.
func (c *wallClock) right() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows = nil
	return c.write()
}

// write replaces the file atomically, so that no node reads half of it.
func (c *wallClock) write() error {
	var text strings.Builder
	for _, r := range c.rows {
		fmt.Fprintf(&text, "%d %d %d\n", r.ahead, r.fast, r.since)
	}
	if err := os.WriteFile(c.path+".new", []byte(text.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(c.path+".new", c.path)
}

// movedWalls are wall clocks while they have the same error.
type movedWalls struct {
	w       *World
	servers []*Server
	row     wallRow
	rows    []*wallRow
	begin   int64
}

// moveWalls makes wall clocks wrong; back sets them right again.
func moveWalls(w *World, servers []*Server, row wallRow) (*movedWalls, error) {
	m := &movedWalls{w: w, servers: servers, row: row, begin: w.Rec.Now()}
	var all error
	for _, s := range servers {
		own := row
		m.rows = append(m.rows, &own)
		all = errors.Join(all, s.wall.add(&own))
	}
	return m, all
}

func (m *movedWalls) back() error {
	var all error
	for i, s := range m.servers {
		all = errors.Join(all, s.wall.remove(m.rows[i]))
	}
	return all
}

// keep records the error for the checkers.
func (m *movedWalls) keep(ahead int64, swings bool) {
	end := m.w.Rec.Now()
	m.w.Rec.With(func(h *check.History) {
		for _, s := range m.servers {
			h.Walls = append(h.Walls, check.WallShift{Node: s.ID, Begin: m.begin, End: end, Ahead: ahead,
				Swings: swings})
		}
	})
}

// clocksOf draws the founders whose clocks are moved, from those that are members: one, a majority, or all.
func clocksOf(w *World, r *rand.Rand, share int) []*Server {
	all := slices.DeleteFunc(some(w, r, 100), func(s *Server) bool {
		return !slices.Contains(w.Cluster.All()[:w.Cluster.Founders], s)
	})
	n := [...]int{1, len(all)/2 + 1, len(all)}[share]
	return all[:min(n, len(all))]
}

// someMs draws 1 s to 1 h, short ones as likely as long ones, ahead or behind.
func someMs(r *rand.Rand) int64 {
	ms := int64(1000 * math.Exp(r.Float64()*math.Log(3600)))
	if r.IntN(2) == 0 {
		return -ms
	}
	return ms
}

// jumpWall makes the wall clock of one node jump.
func jumpWall(_ context.Context, w *World, r *rand.Rand) blow { return jump(w, r, 0) }

// jumpWalls makes those of a majority or of all nodes jump, all alike.
func jumpWalls(_ context.Context, w *World, r *rand.Rand) blow { return jump(w, r, 1+r.IntN(2)) }

func jump(w *World, r *rand.Rand, share int) blow {
	ms, servers := someMs(r), clocksOf(w, r, share)
	if len(servers) == 0 {
		return blow{}
	}
	m, err := moveWalls(w, servers, wallRow{ahead: ms})
	return blow{targets: namesOf(servers), note: fmt.Sprintf("%+d ms", ms), err: err, mend: func() error {
		err := m.back()
		m.keep(ms, false)
		return err
	}}
}

// strobeWalls makes wall clocks jump to and fro every 200 ms.
func strobeWalls(ctx context.Context, w *World, r *rand.Rand) blow {
	ms, servers := someMs(r), clocksOf(w, r, r.IntN(3))
	if len(servers) == 0 {
		return blow{}
	}
	m, err := moveWalls(w, servers, wallRow{ahead: ms})
	ctx, stop := context.WithCancel(ctx)
	var loop sync.WaitGroup
	failed := err
	loop.Go(func() {
		for away := true; failed == nil && Rest(ctx, 200*time.Millisecond); away = !away {
			if away {
				failed = m.back()
				continue
			}
			next, err := moveWalls(w, servers, wallRow{ahead: ms})
			m.rows, failed = next.rows, err
		}
	})
	return blow{targets: namesOf(servers), note: fmt.Sprintf("%+d ms to and fro", ms), mend: func() error {
		stop()
		loop.Wait()
		err := m.back()
		m.keep(ms, true)
		return errors.Join(failed, err)
	}}
}

// skewWalls makes wall clocks run up to 5 % too fast or too slow.
func skewWalls(_ context.Context, w *World, r *rand.Rand) blow {
	fast, servers := int64(1000*(10+r.IntN(41))), clocksOf(w, r, r.IntN(3))
	if r.IntN(2) == 0 {
		fast = -fast
	}
	if len(servers) == 0 {
		return blow{}
	}
	since := time.Now().UnixMilli()
	m, err := moveWalls(w, servers, wallRow{fast: fast, since: since})
	return blow{targets: namesOf(servers), note: fmt.Sprintf("%+.1f %%", float64(fast)/1e4), err: err,
		mend: func() error {
			err := m.back()
			m.keep((time.Now().UnixMilli()-since)*fast/1_000_000, true)
			return err
		}}
}
