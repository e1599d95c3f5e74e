package main

import (
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/operator"
	"github.com/rotasched/rota/internal/limits"
)

// TestSize_measured compares the calculated memory with servers that were measured under full load
// (docs/internals/performance.md): never less than they used, nor twice as much.
func TestSize_measured(t *testing.T) {
	t.Parallel()
	const brief, long = time.Minute, time.Hour // remembered: 120,000 ended jobs, and the maximum
	for _, m := range []struct {
		pending, workers int64
		retention        time.Duration
		mebibytes        int64
	}{{1_000, 4, brief, 394}, {10_000, 4, brief, 439}, {100_000, 4, long, 800}, {1_000_000, 4, long, 2367},
		{2_000_000, 4, long, 3593},
		{10_000_000, 4, long, 8358}, {1_000, 1_000, brief, 544}, {1_000, 10_000, brief, 1144}} {
		s := operator.Load{Rate: 2000, Pending: m.pending, Workers: m.workers, Payload: 256,
			Retention: m.retention}.Size()
		if got := s.Memory >> 20; got < m.mebibytes || got > 2*m.mebibytes {
			t.Errorf("%d pending, %d workers: %d MiB are calculated, %d were measured", m.pending, m.workers, got,
				m.mebibytes)
		}
	}
}

func TestSize_notes(t *testing.T) {
	t.Parallel()
	plain := operator.Load{Rate: 100, Pending: 1000, Workers: 10, Payload: 256, Retention: time.Hour,
		ArchiveMax: 1 << 40, Audit: 1_000_000}
	if s := plain.Size(); s.Cores != 1 || len(s.Notes) != 0 || s.Kept != time.Hour {
		t.Errorf("%+v", s)
	}
	for says, change := range map[string]func(*operator.Load){
		"is more than was measured": func(l *operator.Load) { l.Rate = 20_000 },
		"state_bytes_max=":          func(l *operator.Load) { l.Pending = 3_000_000 },
		"the archive is full after 10h11m": func(l *operator.Load) {
			l.Rate, l.Retention, l.ArchiveMax = 200, 7*24*time.Hour, 8<<30
		},
		"more than a day's work":          func(l *operator.Load) { l.Rate, l.Pending = 1, 100_000 },
		"with 20000 workers is more than": func(l *operator.Load) { l.Workers = 20_000 },
		"with 5000 workers is more than":  func(l *operator.Load) { l.Rate, l.Workers = 4_000, 5_000 },
		"more slots do with 2":            func(l *operator.Load) { l.Rate, l.Workers = 3_000, 10_000 },
		// The state remembers 1,000,000 jobs for 1 h 23 min, longer than so little of an archive keeps them; more of it does so longer.
		"submitted again 1h23m0s after": func(l *operator.Load) {
			l.Rate, l.Retention, l.ArchiveMax = 200, 7*24*time.Hour, 1<<29
		},
		"submitted again 10h11m0s after": func(l *operator.Load) {
			l.Rate, l.Retention, l.ArchiveMax = 200, 7*24*time.Hour, 8<<30
		},
	} {
		l := plain
		change(&l)
		if s := l.Size(); len(s.Notes) != 1 || !strings.Contains(s.Notes[0], says) {
			t.Errorf("want %q of %+v: %q", says, l, s.Notes)
		}
	}
	most := operator.Load{Rate: operator.MaxSizeRate, Pending: 1_000_000_000, Workers: limits.MaxWorkers,
		Payload: rota.MaxPayloadBytes, Retention: 366 * 24 * time.Hour,
		ArchiveMax: 1 << 50, Audit: 1_000_000_000}.Size()
	if most.Memory <= 0 || most.Disk <= 0 || most.Network <= 0 || most.Kept <= 0 {
		t.Errorf("the greatest load overflows: %+v", most)
	}
	if none := (operator.Load{}).Size(); none.Memory < operator.SizeBase || none.Cores != 1 {
		t.Errorf("%+v", none)
	}
}

func TestSize_command(t *testing.T) {
	t.Parallel()
	code, out, talk := rotaLine("operator", "size", "--rate", "500", "--pending", "2000000")
	if code != cli.ExitDone || !strings.Contains(out, "cores            2\n") ||
		!strings.Contains(out, "state_bytes_max") {
		t.Errorf("exit %d\n%s%s", code, out, talk)
	}
	for _, flag := range [][]string{{"--rate", "-1"}, {"--workers", "100001"}} {
		if code, _, talk := rotaLine("operator", "size", flag[0], flag[1]); code != cli.ExitUsage ||
			!strings.Contains(talk, flag[0]) {
			t.Errorf("exit %d: %s", code, talk)
		}
	}
}
