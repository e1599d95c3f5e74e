package audit

import (
	"context"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/cron"
)

// fireOp returns the operation that an honest leader proposes for a schedule, up to a moment.
func (l *memoryLog) fireOp(name rota.ScheduleName, until rota.Date) *fsmpb.Fire {
	l.t.Helper()
	due, ok := fsm.DueOf(&l.m.View, name)
	table, err := cron.Embedded().Of(due.Times, due.Set)
	if !ok || err != nil {
		l.t.Fatal(ok, err)
	}
	dates, missed := cron.Between(table, int64(due.Through), int64(until), rota.MaxScheduleDates)
	return &fsmpb.Fire{Name: string(name), Version: due.Version, FromMs: int64(due.Through), UntilMs: int64(until),
		DatesMs: dates, Missed: uint64(missed), Tzdata: cron.Release}
}

// fired returns a log with an every-minute schedule that has fired three times.
func fired(t *testing.T) *memoryLog {
	l := newMemoryLog(t)
	spec := rota.NewScheduleSpec("s", rota.NewJobSpec("t", nil))
	spec.Cron, spec.Overlap, spec.Job.Tenant = "* * * * *", rota.OverlapAllow, "t"
	if err := entry.OutcomeError(l.commit(entry.ScheduleOp(&spec)).Outcomes[0]); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		l.minute()
		l.fire(l.fireOp("s", l.m.Head().Date))
	}
	return l
}

// minute advances the time by a minute.
func (l *memoryLog) minute() {
	for range 60 {
		l.now += 950 // commit adds the rest of a second
		l.commit(&fsmpb.Op{Op: &fsmpb.Op_Sweep{Sweep: &fsmpb.Sweep{}}})
	}
}

func (l *memoryLog) fire(list ...*fsmpb.Fire) *fsm.Applied {
	l.t.Helper()
	ops := make([]*fsmpb.Op, len(list))
	for i, f := range list {
		ops[i] = &fsmpb.Op{Op: &fsmpb.Op_Fire{Fire: f}}
	}
	return l.commit(ops...)
}

// TestAudit_fires: a Fire that no leader may have proposed is reported, and one that repeats a decision changes
// nothing.
func TestAudit_fires(t *testing.T) {
	t.Parallel()
	replayed := func(l *memoryLog) rota.AuditReport {
		t.Helper()
		report, err := stretch(context.Background(), fsm.New(), l, l.last,
			map[rota.Index]rota.Digest{rota.Index(l.last): l.m.Digest()})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	runs := func(l *memoryLog) uint64 {
		s, _ := fsm.ScheduleOf(&l.m.View, "s")
		return s.Runs
	}
	t.Run("honest", func(t *testing.T) {
		t.Parallel()
		l := fired(t)
		if r := replayed(l); r.Difference != nil || r.Fires != 3 || r.FiresProved != 3 || r.FiresRefused != 0 ||
			runs(l) != 3 {
			t.Fatalf("%+v, %d runs", r, runs(l))
		}
	})
	for name, x := range map[string]struct {
		forge func(l *memoryLog) []*fsmpb.Fire
		says  string
	}{
		"a wrong date": {func(l *memoryLog) []*fsmpb.Fire {
			f := l.fireOp("s", l.m.Head().Date)
			f.DatesMs[0]--
			return []*fsmpb.Fire{f}
		}, "has 1 dates"},
		"a date that is left out": {func(l *memoryLog) []*fsmpb.Fire {
			f := l.fireOp("s", l.m.Head().Date)
			f.DatesMs = nil
			return []*fsmpb.Fire{f}
		}, "has 1 dates"},
		"a paused schedule": {func(l *memoryLog) []*fsmpb.Fire {
			l.commit(&fsmpb.Op{Op: &fsmpb.Op_PauseSchedule{PauseSchedule: &fsmpb.PauseSchedule{Name: "s", Paused: true,
				Reason: "x"}}})
			return []*fsmpb.Fire{l.fireOp("s", l.m.Head().Date)}
		}, "schedule s is paused"},
		"a date that had fired, next to one that is due": {func(l *memoryLog) []*fsmpb.Fire {
			f := l.fireOp("s", l.m.Head().Date)
			f.DatesMs = append([]int64{f.GetDatesMs()[0] - 60_000}, f.GetDatesMs()...)
			return []*fsmpb.Fire{f}
		}, "has 1 dates"},
		"two parts, the second with a date of its own": {func(l *memoryLog) []*fsmpb.Fire {
			f := l.fireOp("s", l.m.Head().Date)
			half := (f.GetFromMs() + f.GetUntilMs()) / 2
			first := l.fireOp("s", rota.Date(half))
			f.FromMs, f.DatesMs = half, []int64{f.GetUntilMs()}
			return []*fsmpb.Fire{first, f}
		}, "is not decided through"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := fired(t)
			l.minute()
			l.fire(x.forge(l)...)
			r := replayed(l)
			if r.Difference == nil || r.Difference.Index != rota.Index(l.last) ||
				!strings.Contains(r.Difference.Proved, x.says) {
				t.Fatalf("want a difference at entry %d with the text %q: %+v", l.last, x.says, r.Difference)
			}
		})
	}
	t.Run("dates_that_had_fired", func(t *testing.T) {
		t.Parallel()
		l := fired(t)
		l.minute()
		f := l.fireOp("s", l.m.Head().Date)
		l.fire(f)
		l.minute()
		again := l.fire(f)
		if r := replayed(l); entry.OutcomeError(again.Outcomes[0]) == nil || r.Difference != nil || r.Fires != 5 ||
			r.FiresProved != 4 || r.FiresRefused != 1 ||
			runs(l) != 4 {
			t.Fatalf("%+v, %+v, %d runs", again.Outcomes[0], r, runs(l))
		}
	})
}
