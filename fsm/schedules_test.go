package fsm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// scheduleOp sets a schedule that is due each minute.
func scheduleOp(name string, change ...func(*rota.ScheduleSpec)) *fsmpb.Op {
	s := rota.NewScheduleSpec(rota.ScheduleName(name), *jobSpec(""))
	s.Cron = "* * * * *"
	for _, f := range change {
		f(&s)
	}
	return entry.ScheduleOp(&s)
}

// aMinute is the time between a schedule's dates in these tests: each minute of the date.
const aMinute = rota.Date(60_000)

// newClockwork is a bench whose date is a whole minute and runs as its clock does.
func newClockwork(t tester) *bench {
	b := newBench(t)
	b.ok(queueOp("default", "attempt_max", "1"))
	b.tick(0)
	return b
}

// tick lets wall time pass; the clock advances by at most a second.
func (b *bench) tick(ms rota.Clock) {
	b.t.Helper()
	b.now += min(ms, 1_000)
	wall := int64(1_760_000_040_000) // a whole minute
	if len(b.walls) > 0 {
		wall = b.walls[0] + int64(ms)
	}
	b.walls = []int64{wall, wall, wall}
	b.entry(sweepOp())
}

// fireOp is a leader's proposal for a schedule that is due each minute.
func (b *bench) fireOp(name string, until rota.Date) *fsmpb.Op {
	due, _ := DueOf(&b.View, rota.ScheduleName(name))
	op := &fsmpb.Fire{Name: name, Version: due.Version, FromMs: int64(due.Through), UntilMs: int64(until),
		Tzdata: "test"}
	for d := due.Through/aMinute*aMinute + aMinute; d <= until; d += aMinute {
		op.DatesMs = append(op.DatesMs, int64(d))
	}
	return &fsmpb.Op{Op: &fsmpb.Op_Fire{Fire: op}}
}

func (b *bench) schedule(name string) rota.Schedule {
	s, ok := ScheduleOf(&b.View, rota.ScheduleName(name))
	if !ok {
		b.t.Fatalf("schedule %s is not known", name)
	}
	return s
}

func pauseOp(name string, paused, catchUp bool) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_PauseSchedule{PauseSchedule: &fsmpb.PauseSchedule{Name: name, Paused: paused,
		CatchUp: catchUp}}}
}

func triggerOp(name, id string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_TriggerSchedule{TriggerSchedule: &fsmpb.TriggerSchedule{Name: name, Id: id}}}
}

func backfillOp(name string, version uint64, overlap rota.Overlap, dates ...rota.Date) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_BackfillSchedule{BackfillSchedule: &fsmpb.BackfillSchedule{Name: name,
		Version: version, DatesMs: entry.DatesOp(dates),
		Overlap: uint32(overlap)}}}
}

func unscheduleOp(name string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_DeleteSchedule{DeleteSchedule: &fsmpb.DeleteSchedule{Name: name}}}
}

// told returns the payloads of events about schedules in short form.
func told(events []rota.Event) (list []string) {
	for _, e := range events {
		if strings.HasPrefix(e.Kind.String(), "schedule") {
			list = append(list, e.Kind.String()+" "+string(e.Job))
		}
	}
	return list
}

// TestFire checks that a moment is decided once, whichever node leads.
func TestFire(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	b.ok(scheduleOp("s"))
	start := b.Header.Date()
	b.tick(60_500)
	op := b.fireOp("s", b.Header.Date())
	a := b.entry(op)
	id := rota.RunID("s", start+aMinute, "")
	if got := told(a.Events); !slices.Equal(got, []string{"scheduleFired " + string(id)}) ||
		b.state(string(id), rota.JobQueued).Queue != "default" {
		t.Fatal(got)
	}
	if want := rota.JobID("s@" + (start + aMinute).Time().Format(time.RFC3339)); id != want {
		t.Errorf("%s, not %s", id, want)
	}
	b.refuses(rota.KindStale, "from", op) // another leader's
	b.lead()
	b.refuses(rota.KindStale, "from", op)
	b.refuses(rota.KindInvalid, "until", b.fireOp("s", b.Header.Date()+1))
	for _, dates := range [][]int64{{5}, {int64(b.Header.Date() + 1_000)}, {9, 9}, {-1}} {
		b.tick(1)
		bad := b.fireOp("s", b.Header.Date())
		bad.GetFire().DatesMs = dates
		b.refuses(rota.KindInvalid, "dates", bad)
	}
	b.refuses(rota.KindNotFound, "schedule", &fsmpb.Op{Op: &fsmpb.Op_Fire{Fire: &fsmpb.Fire{Name: "other"}}})
	b.restored()
}

// TestFire_onlyLeaders checks that an entry of a past leadership fires nothing.
func TestFire_onlyLeaders(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	b.ok(scheduleOp("s"))
	b.tick(60_500)
	op := b.fireOp("s", b.Header.Date())
	a := b.stamped(&fsmpb.Entry{Term: b.term + 1, NowMs: int64(b.now), Ops: []*fsmpb.Op{op}}, b.term)
	if err := entry.OutcomeError(a.Outcomes[0]); err == nil || err.Kind != rota.KindStale {
		t.Error(err)
	}
}

// TestFire_late checks that a date more than 10 s old is late, and that the newest late ones run, within the window.
func TestFire_late(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		window time.Duration
		most   int64
		want   int
	}{{time.Hour, 1, 1}, {time.Hour, 0, 0}, {time.Hour, 3, 3}, {90 * time.Second, 5, 2}, {time.Hour, 100, 10}} {
		b := newClockwork(t)
		b.ok(scheduleOp("s", func(s *rota.ScheduleSpec) {
			s.CatchUp, s.CatchUpMax, s.Overlap = c.window, c.most, rota.OverlapAllow
		}))
		b.tick(600_000 + 15_000)
		b.ok(b.fireOp("s", b.Header.Date()))
		if s := b.schedule("s"); int(s.Runs) != c.want || int(s.Missed) != 10-c.want || s.Through != b.Header.Date() {
			t.Errorf("%v, %d: %+v", c.window, c.most, s)
		}
		b.tick(45_000 + 9_000) // the next one is 9 s old
		b.ok(b.fireOp("s", b.Header.Date()))
		if s := b.schedule("s"); int(s.Runs) != c.want+1 {
			t.Errorf("%v, %d: a date in time did not run: %+v", c.window, c.most, s)
		}
	}
}

// TestOverlap checks the handling of dates while a run lives.
func TestOverlap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		overlap       rota.Overlap
		live, waiting int
		skipped       uint64
	}{{rota.OverlapSkip, 1, 0, 2}, {rota.OverlapQueueOne, 1, 1, 1}, {rota.OverlapQueueAll, 1, 2, 0},
		{rota.OverlapCancel, 1, 0, 0},
		{rota.OverlapAllow, 3, 0, 0}} {
		t.Run(c.overlap.String(), func(t *testing.T) {
			b := newClockwork(t)
			b.ok(scheduleOp("s", func(s *rota.ScheduleSpec) { s.Overlap = c.overlap }))
			var runs []rota.JobID
			for range 3 {
				b.tick(60_000)
				b.ok(b.fireOp("s", b.Header.Date()))
				runs = append(runs, rota.RunID("s", b.Header.Date()/aMinute*aMinute, ""))
			}
			s := b.schedule("s")
			if len(s.Live) != c.live || len(s.Waiting) != c.waiting || s.Skipped != c.skipped {
				t.Fatalf("%+v", s)
			}
			if c.overlap == rota.OverlapCancel {
				if s.Live[0] != runs[2] || b.state(string(runs[1]),
					rota.JobCancelled).Reason != rota.ReasonScheduleCancelled {
					t.Errorf("%+v", s)
				}
				return
			}
			b.ok(cancelOp(string(runs[0]))) // the next that waits starts in its entry
			if s = b.schedule("s"); c.waiting > 0 && (len(s.Live) != 1 || s.Live[0] != runs[1] ||
				len(s.Waiting) != c.waiting-1) {
				t.Errorf("%+v", s)
			}
			b.restored()
		})
	}
}

// TestOverlap_freeAt checks that a waiting run starts only after the cancelled run's worker has stopped.
func TestOverlap_freeAt(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	b.ok(registerOp("w", 1, "s", false))
	b.ok(scheduleOp("s", func(s *rota.ScheduleSpec) { s.Overlap = rota.OverlapCancel }))
	b.tick(60_000)
	b.ok(b.fireOp("s", b.Header.Date()))
	if len(b.match()) != 1 {
		t.Fatal("the run is not leased")
	}
	b.tick(60_000)
	b.ok(b.fireOp("s", b.Header.Date()))
	second := b.schedule("s").Live[0]
	first := b.state(string(second), rota.JobDelayed).Due.Clock
	if first <= b.now {
		t.Errorf("it begins at %d, it is %d", first, b.now)
	}
	b.tick(60_000) // the third replaces the second, which never began: it waits for the first one's worker
	b.ok(b.fireOp("s", b.Header.Date()))
	third := b.schedule("s").Live[0]
	if j := b.state(string(third), rota.JobDelayed); third == second || j.Due.Clock != first {
		t.Errorf("%s begins at %d, the worker of the first run lets go at %d", third, j.Due.Clock, first)
	}
	b.ok(triggerOp("s", "now"))
	b.state("s@+now", rota.JobQueued)
	b.restored()
}

// TestSchedule_refusedRuns checks that a run that admission refuses is tried again, and its date not decided.
func TestSchedule_refusedRuns(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	b.ok(queueOp("default", "queue_cap", "1"))
	b.submit("full")
	b.ok(scheduleOp("s", func(s *rota.ScheduleSpec) { s.Overlap = rota.OverlapQueueAll }))
	b.tick(60_500)
	b.ok(b.fireOp("s", b.Header.Date()))
	s := b.schedule("s")
	if s.Through%aMinute != aMinute-1 || s.Runs != 0 || !strings.Contains(s.Why, "queue_cap") {
		t.Fatalf("%+v", s)
	}
	b.ok(cancelOp("full"))
	b.ok(b.fireOp("s", b.Header.Date()))
	first := b.schedule("s").Live[0]
	b.tick(60_000)
	b.ok(b.fireOp("s", b.Header.Date()))
	b.entry(cancelOp(string(first)), submitOp(jobSpec("full2"))) // the place is in use again
	if s = b.schedule("s"); len(s.Live) != 0 || len(s.Waiting) != 1 || b.View.AtRest() {
		t.Fatalf("%+v, at rest %v", s, b.View.AtRest())
	}
	b.ok(cancelOp("full2"))
	b.tick(1_000)
	if s = b.schedule("s"); len(s.Live) != 1 || len(s.Waiting) != 0 || s.Why != "" {
		t.Errorf("%+v", s)
	}
}

// TestSchedule_ends checks limits, ends and given dates, and failures that pause.
func TestSchedule_ends(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	b.ok(scheduleOp("limit", func(s *rota.ScheduleSpec) { s.Limit, s.Overlap = 2, rota.OverlapAllow }))
	b.ok(scheduleOp("end", func(s *rota.ScheduleSpec) { s.End = b.Header.Date() + 90_000 }))
	b.ok(scheduleOp("fail", func(s *rota.ScheduleSpec) { s.PauseOnFailure, s.Job.TTL = true, time.Second }))
	for range 3 {
		b.tick(60_000)
		for _, name := range []string{"limit", "end", "fail"} {
			if b.schedule(name).State == rota.ScheduleActive {
				b.ok(b.fireOp(name, b.Header.Date()))
			}
		}
	}
	if s := b.schedule("limit"); s.State != rota.ScheduleDone || s.Runs != 2 {
		t.Errorf("%+v", s)
	}
	if s := b.schedule("end"); s.State != rota.ScheduleDone {
		t.Errorf("%+v", s)
	}
	if s := b.schedule("fail"); s.State != rota.SchedulePaused || s.Failed != 1 || !strings.Contains(s.Why, "EXPIRED") {
		t.Errorf("%+v", s)
	}
	b.ok(pauseOp("fail", false, false))
	if s := b.schedule("fail"); s.State != rota.ScheduleActive || s.Through != b.Header.Date() {
		t.Errorf("%+v", s)
	}
	b.ok(pauseOp("fail", true, false))
	through := b.schedule("fail").Through
	b.tick(60_000)
	b.refuses(rota.KindStale, "from", b.fireOp("fail", b.Header.Date()))
	b.ok(pauseOp("fail", false, true))
	if s := b.schedule("fail"); s.Through != through {
		t.Errorf("%+v: it does not catch up from %s", s, through)
	}
}

// TestSchedule_set checks repetitions, and that a change keeps live runs.
func TestSchedule_set(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	b.ok(scheduleOp("s"))
	if o := b.ok(scheduleOp("s")); !o.GetExisted() || b.schedule("s").Version != 1 {
		t.Error(o)
	}
	b.tick(60_500)
	b.ok(b.fireOp("s", b.Header.Date()))
	was := b.schedule("s")
	b.tick(1_000)
	b.ok(scheduleOp("s", func(s *rota.ScheduleSpec) { s.Limit = 7 }))
	if s := b.schedule("s"); s.Version != was.Version+1 || s.Through != was.Through || len(s.Live) != 1 {
		t.Errorf("%+v", s)
	}
	b.ok(scheduleOp("s", func(s *rota.ScheduleSpec) { s.Cron = "5 * * * *" }))
	if s := b.schedule("s"); s.Through != b.Header.Date() || len(s.Live) != 1 {
		t.Errorf("%+v", s)
	}
	b.ok(queueOp("other"))
	b.ok(scheduleOp("s", func(s *rota.ScheduleSpec) { s.Job.Queue = "other" }))
	b.refuses(rota.KindConflict, "queue",
		&fsmpb.Op{Op: &fsmpb.Op_DeleteQueue{DeleteQueue: &fsmpb.DeleteQueue{Name: "other"}}})
	b.refuses(rota.KindConflict, "queue",
		&fsmpb.Op{Op: &fsmpb.Op_DeleteQueue{DeleteQueue: &fsmpb.DeleteQueue{Name: "other", DrainTo: "default"}}})
	run := b.schedule("s").Live[0]
	b.ok(unscheduleOp("s"))
	b.state(string(run), rota.JobQueued)
	if o := b.ok(unscheduleOp("s")); !o.GetExisted() {
		t.Error(o)
	}
	b.ok(&fsmpb.Op{Op: &fsmpb.Op_DeleteQueue{DeleteQueue: &fsmpb.DeleteQueue{Name: "other"}}})
	b.ok(cancelOp(string(run)))
}

func TestSchedule_refuses(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	for field, change := range map[string]func(*rota.ScheduleSpec){
		"name":         func(s *rota.ScheduleSpec) { s.Name = rota.ScheduleName(strings.Repeat("n", 33)) },
		"cron":         func(s *rota.ScheduleSpec) { s.Every = time.Minute },
		"every_ms":     func(s *rota.ScheduleSpec) { s.Cron, s.Every = "", time.Millisecond },
		"dates":        func(s *rota.ScheduleSpec) { s.Cron, s.Dates = "", []rota.Date{2, 2} },
		"tz":           func(s *rota.ScheduleSpec) { s.TZ = strings.Repeat("z", 65) },
		"start":        func(s *rota.ScheduleSpec) { s.Start = -1 },
		"end":          func(s *rota.ScheduleSpec) { s.Start, s.End = 5, 5 },
		"limit":        func(s *rota.ScheduleSpec) { s.Limit = -1 },
		"jitter_ms":    func(s *rota.ScheduleSpec) { s.Jitter = -1 * time.Second },
		"overlap":      func(s *rota.ScheduleSpec) { s.Overlap = 5 },
		"catch_up_ms":  func(s *rota.ScheduleSpec) { s.CatchUp = time.Second },
		"catch_up_max": func(s *rota.ScheduleSpec) { s.CatchUpMax = 101 },
		"job":          func(s *rota.ScheduleSpec) { s.Job.ID = "j" },
		"type":         func(s *rota.ScheduleSpec) { s.Job.Type = "" },
	} {
		b.refuses(rota.KindInvalid, field, scheduleOp("s", change))
	}
	b.refuses(rota.KindNotFound, "queue", scheduleOp("s", func(s *rota.ScheduleSpec) { s.Job.Queue = "none" }))
	for _, op := range []*fsmpb.Op{pauseOp("s", true, false), triggerOp("s", "x"),
		backfillOp("s", 1, rota.OverlapSkip)} {
		b.refuses(rota.KindNotFound, "schedule", op)
	}
	b.ok(scheduleOp("s"))
	b.refuses(rota.KindInvalid, "id", triggerOp("s", "a b"))
	b.refuses(rota.KindStale, "version", backfillOp("s", 2, rota.OverlapSkip))
	b.refuses(rota.KindInvalid, "dates", backfillOp("s", 1, rota.OverlapSkip, b.Header.Date()+1))
	b.refuses(rota.KindInvalid, "dates", backfillOp("s", 1, rota.OverlapSkip,
		make([]rota.Date, rota.MaxScheduleDates+1)...))
	b.refuses(rota.KindInvalid, "id", submitOp(jobSpec("s@x"))) // its ids are reserved
}

// TestSchedule_byHand checks triggers and backfills.
func TestSchedule_byHand(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	b.ok(scheduleOp("s", func(s *rota.ScheduleSpec) { s.Jitter = 10 * time.Second }))
	b.ok(pauseOp("s", true, false))
	if o := b.ok(triggerOp("s", "now")); o.GetExisted() || !b.ok(triggerOp("s", "now")).GetExisted() {
		t.Error(o)
	}
	b.state("s@+now", rota.JobQueued)
	b.ok(pauseOp("s", false, false))
	version, past := b.schedule("s").Version, b.Header.Date()-10*aMinute
	b.ok(backfillOp("s", version, rota.OverlapQueueAll, past, past+aMinute))
	if s := b.schedule("s"); len(s.Live) != 1 || len(s.Waiting) != 2 {
		t.Fatalf("%+v", s)
	}
	b.ok(backfillOp("s", version, rota.OverlapQueueAll, past, past+aMinute))
	if s := b.schedule("s"); len(s.Waiting) != 2 {
		t.Errorf("%+v: a repetition waits again", s)
	}
	b.ok(cancelOp("s@+now"))
	if s := b.schedule("s"); len(s.Live) != 1 || s.Live[0] != rota.RunID("s", past, "") || len(s.Waiting) != 1 {
		t.Errorf("%+v", s)
	}
}

// TestWhy_runThatWaits checks the reasons why a queued date waits.
func TestWhy_runThatWaits(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	b.ok(scheduleOp("s", func(s *rota.ScheduleSpec) { s.Overlap = rota.OverlapQueueAll }))
	var runs []rota.JobID
	for range 3 {
		b.tick(60_000)
		b.ok(b.fireOp("s", b.Header.Date()))
		runs = append(runs, rota.RunID("s", b.Header.Date()/aMinute*aMinute, ""))
	}
	why := func(id rota.JobID, reasons ...string) {
		t.Helper()
		x, ok := b.Why(id, 10)
		var got []string
		for _, w := range x.Reasons {
			got = append(got, w.Reason)
		}
		if !ok || x.State != rota.JobBlocked || !slices.Equal(got, reasons) || len(x.WouldRun) == 0 &&
			reasons[0] != "RUN_REFUSED" {
			t.Errorf("%s: got %v, %+v; want %v", id, ok, x, reasons)
		}
	}
	why(runs[1], "WAITING_FOR_RUN")
	why(runs[2], "WAITING_FOR_RUN", "BEHIND_EARLIER_DATES")
	if x, _ := b.Why(runs[1], 10); !strings.Contains(x.Reasons[0].Detail, string(runs[0])+" (QUEUED)") ||
		!strings.Contains(x.Reasons[0].Detail, "queue_all") {
		t.Errorf("%+v", x)
	}
	for _, id := range []rota.JobID{"s@2031-01-01T00:00:00Z", "other@2031-01-01T00:00:00Z", "s"} {
		if x, ok := b.Why(id, 10); ok {
			t.Errorf("%s: %+v", id, x)
		}
	}
	b.ok(pauseOp("s", true, false))
	why(runs[1], "SCHEDULE_PAUSED")
	b.ok(pauseOp("s", false, true))
	b.ok(modeOp(rota.ModeReadOnly, "by hand"))
	b.ok(cancelOp(string(runs[0])))
	why(runs[1], "RUN_REFUSED")
}

// TestSchedule_setAgain checks that a schedule that is deleted and set again while its run lives does not overlap it.
func TestSchedule_setAgain(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	b.ok(switchOp(2))
	fire := func() {
		b.tick(60_000)
		b.ok(b.fireOp("s", b.Header.Date()))
	}
	b.ok(scheduleOp("s"))
	b.ok(batchOp("s", 0))
	b.ok(entry.SealOp("s")) // s@done is not a run of it
	fire()
	live := b.schedule("s").Live
	if len(live) != 1 {
		t.Fatalf("%v live", live)
	}
	b.ok(triggerOp("s", "by-hand"))
	b.ok(cancelOp("s@+by-hand"))
	b.ok(retryOp("s@+by-hand")) // a retried run does not count for the schedule
	b.ok(unscheduleOp("s"))
	b.ok(scheduleOp("s"))
	if s := b.schedule("s"); !slices.Equal(s.Live, live) {
		t.Fatalf("%v live of the schedule that is set again, want %v", s.Live, live)
	}
	fire()
	if s := b.schedule("s"); s.Skipped != 1 || len(s.Live) != 1 {
		t.Fatalf("%d dates are skipped, %v live", s.Skipped, s.Live)
	}
	b.ok(cancelOp(string(live[0])))
	fire()
	if s := b.schedule("s"); len(s.Live) != 1 || s.Live[0] == live[0] {
		t.Fatalf("%v live after the first run has ended", s.Live)
	}
	b.sound()
}
