package virtual

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// watched returns a life without nodes, whose checks run on the values given here.
func watched() *life {
	return newLife(options{nodes: 3, log: slog.New(slog.DiscardHandler)})
}

func (l *life) want(t *testing.T, name, promise string) {
	t.Helper()
	got := strings.Join(l.violations, "\n")
	if promise == "" && got != "" || !strings.Contains(got, promise) {
		t.Errorf("%s: found %q, want %q", name, got, promise)
	}
}

// TestClockRate sets clocks at moments: real time, the allowed addition of leaps, and more.
func TestClockRate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		leaps   int64
		clock   rota.Clock // after 10 s, from 0
		promise string
	}{
		"as it should":          {0, 10_000, ""},
		"behind":                {0, 2_000, ""},
		"a little more, leapt":  {1, 12_000, ""},
		"far more, leapt":       {1, 20_000, "the cluster clock does not run away"},
		"more than commits add": {0, 12_000, "the cluster clock does not run away"},
	} {
		inBubble(t, func(t *testing.T) {
			l := watched()
			l.watch.rate(0, 1)
			time.Sleep(10 * time.Second)
			l.leaps.Store(c.leaps)
			l.watch.rate(c.clock, 2)
			l.watch.rate(c.clock-100_000, 1) // a lagging node has no effect
			l.want(t, name, c.promise)
			l.end()
		})
	}
}

func TestJudgedEvents(t *testing.T) {
	t.Parallel()
	expired := rota.Event{Kind: rota.EventJobExpired, Job: "j"}
	for name, c := range map[string]struct {
		tell    func(l *life)
		promise string
	}{
		"expired in time": {func(l *life) { l.inTime(&expired, &jobRecord{ttl: time.Minute}, time.Minute+time.Second) },
			""},
		"expired too soon": {func(l *life) { l.inTime(&expired, &jobRecord{ttl: time.Minute}, 59*time.Second) },
			"no job expires before"},
		"expired late": {func(l *life) { l.inTime(&expired, &jobRecord{ttl: time.Minute}, 2*time.Minute) },
			"a job expires in its time"},
		"another's lease ends": {func(l *life) {
			l.steadyEvent(&rota.Event{Kind: rota.EventLeaseExpired, Worker: "w1-3"})
		}, ""},
		"the steady one's lease ends": {func(l *life) {
			l.steadyEvent(&rota.Event{Kind: rota.EventLeaseExpired, Worker: "steady-1"})
		}, "no lease of a live, connected worker ends"},
		"the same events, one node further": {func(l *life) {
			l.told = [][]uint64{{1, 2}, {1, 2, 3}, {1, 2}}
			l.sameEvents()
		}, ""},
		"other events": {func(l *life) {
			l.told = [][]uint64{{1, 2}, {1, 7, 3}, {1, 2}}
			l.sameEvents()
		}, "all nodes tell the same events"},
	} {
		l := watched()
		c.tell(l)
		l.want(t, name, c.promise)
		l.end()
	}
}

// TestHangs checks that a node whose disk hangs may end for that reason only.
func TestHangs(t *testing.T) {
	t.Parallel()
	hang := rota.Refusef(rota.KindUnavailable, "data",
		"a write to D did not return within 5s: the disk hangs. Look at it")
	if !hangs(hang) || hangs(errors.New("the disk hangs")) ||
		hangs(rota.Refusef(rota.KindInternal, "digest", "state differs")) {
		t.Error("another error passes as a disk that hangs, or that one does not")
	}
}

// TestShort checks that a shorter run, or one with fewer faults than requested, does not count.
func TestShort(t *testing.T) {
	t.Parallel()
	enough := figures{virtual: 10 * time.Hour, faults: map[string]int{"a": 2_999, "b": 1}, submitted: 1}
	if short := enough.short(10 * time.Hour); short != "" {
		t.Error(short)
	}
	fewer := enough
	fewer.faults = map[string]int{"a": 2_999}
	idle := enough
	idle.submitted = 0
	for name, f := range map[string]figures{"fewer faults": fewer, "nothing done": idle,
		"less time": {faults: enough.faults, submitted: 1}} {
		if f.short(10*time.Hour) == "" {
			t.Errorf("%s pass", name)
		}
	}
}
