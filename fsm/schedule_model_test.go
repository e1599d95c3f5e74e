package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// TestSchedule_jitter checks that a run begins within the jitter after its date, always at the same moment.
func TestSchedule_jitter(t *testing.T) {
	t.Parallel()
	r := &state.ScheduleRow{Spec: &rota.ScheduleSpec{Name: "s", Jitter: 10 * time.Second}}
	seen := make(map[rota.Date]bool)
	for d := range rota.Date(200) {
		j := r.Jitter(d)
		if seen[j] = true; j < 0 || j > 10_000 || r.Jitter(d) != j {
			t.Fatal(d, j)
		}
	}
	if len(seen) < 150 {
		t.Errorf("%d different ones of 200", len(seen))
	}
}

// TestSchedule_reborn checks that schedules of another cluster's state are paused.
func TestSchedule_reborn(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	b.ok(scheduleOp("s", func(s *rota.ScheduleSpec) { s.Overlap = rota.OverlapQueueAll }))
	b.tick(120_000)
	b.ok(b.fireOp("s", b.Header.Date()))
	m := b.restored()
	if err := m.Reincarnate(Rebirth{Cluster: "another"}); err != nil {
		t.Fatal(err)
	}
	if s, _ := ScheduleOf(&m.View, "s"); s.State != rota.SchedulePaused || s.Why == "" {
		t.Errorf("%+v", s)
	}
}

func TestSchedule_bounds(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	b.every = 1 << 20
	b.ok(scheduleOp("s", func(s *rota.ScheduleSpec) { s.Overlap = rota.OverlapAllow }))
	version, past := b.schedule("s").Version, b.Header.Date()-aMinute
	b.ok(queueOp("default", "reject_threshold", "0"))
	var dates []rota.Date
	for i := range rota.Date(rota.MaxScheduleDates) {
		dates = append(dates, past+i)
	}
	b.ok(backfillOp("s", version, rota.OverlapAllow, dates...))
	b.ok(backfillOp("s", version, rota.OverlapAllow, past+aMinute/2))
	if s := b.schedule("s"); len(s.Live) != limits.MaxScheduleRuns || s.Skipped != 1 ||
		s.Decisions[len(s.Decisions)-1].What != rota.FateFull {
		t.Errorf("%d live, %d skipped", len(s.Live), s.Skipped)
	}
	b.refuses(rota.KindExhausted, "schedule", triggerOp("s", "x"))
	b.sound()
}

// naiveSchedule is a second implementation of overlap, of one schedule due each minute.
type naiveSchedule struct {
	overlap          rota.Overlap
	live, waiting    []rota.JobID
	begun            map[rota.JobID]bool
	skipped, decided int
}

func (n *naiveSchedule) date(id rota.JobID) {
	n.decided++
	busy := len(n.live)+len(n.waiting) > 0
	switch {
	case !busy, n.overlap == rota.OverlapAllow:
		n.begin(id)
	case n.overlap == rota.OverlapSkip, n.overlap == rota.OverlapQueueOne && len(n.waiting) > 0:
		n.skipped++
	case n.overlap == rota.OverlapCancel:
		n.skipped += len(n.waiting)
		n.live, n.waiting = nil, []rota.JobID{id}
	default:
		n.waiting = append(n.waiting, id)
	}
}

func (n *naiveSchedule) begin(id rota.JobID) {
	n.live, n.begun[id] = append(n.live, id), true
}

// settle is the end of an entry.
func (n *naiveSchedule) settle() {
	if len(n.live) == 0 && len(n.waiting) > 0 {
		n.begin(n.waiting[0])
		n.waiting = n.waiting[1:]
	}
}

// TestScheduleModel compares random lives of schedules with the naive model: dates in time, leaders that repeat each
// other's, runs that end.
func TestScheduleModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 17))
		b := newClockwork(t)
		b.every = 7
		n := &naiveSchedule{overlap: rota.Overlap(r.IntN(5)), begun: make(map[rota.JobID]bool)}
		b.ok(scheduleOp("s", func(s *rota.ScheduleSpec) { s.Overlap, s.CatchUpMax = n.overlap, 100 }))
		dates := make(map[string]int)
		apply := func(op *fsmpb.Op) {
			for _, e := range b.entry(op).Events {
				switch e.Kind {
				case rota.EventScheduleFired, rota.EventScheduleSkipped, rota.EventScheduleMissed:
					dates[e.Payload]++
				}
			}
			n.settle()
		}
		for range 60 {
			switch r.IntN(5) {
			case 0, 1:
				b.tick(rota.Clock(r.IntN(200_000)))
			case 2:
				op := b.fireOp("s", b.Header.Date())
				if op.GetFire().GetFromMs() == op.GetFire().GetUntilMs() {
					continue
				}
				for _, d := range op.GetFire().GetDatesMs() {
					n.date(rota.RunID("s", rota.Date(d), ""))
				}
				apply(op)
				if r.IntN(2) == 0 { // another leader repeats it
					if r.IntN(2) == 0 {
						b.lead()
					}
					apply(op)
				}
			case 3:
				if len(n.live) == 0 {
					continue
				}
				at := r.IntN(len(n.live))
				id := n.live[at]
				n.live = slices.Delete(n.live, at, at+1)
				apply(cancelOp(string(id)))
			}
			s := b.schedule("s")
			if !slices.Equal(s.Live, n.live) || !slices.Equal(s.Waiting, n.waiting) || int(s.Skipped) != n.skipped ||
				int(s.Runs) != len(n.begun) {
				t.Fatalf("seed %d, %s: %v live, %v wait, %d skipped, %d runs; want %v, %v, %d, %d as in the model",
					seed, n.overlap, s.Live, s.Waiting, s.Skipped, s.Runs, n.live, n.waiting, n.skipped, len(n.begun))
			}
		}
		for date, times := range dates {
			if times > 1 {
				t.Fatalf("seed %d: decided %d times: %s", seed, times, date)
			}
		}
		b.restored()
	}
}

func TestSchedule_rights(t *testing.T) {
	t.Parallel()
	caller := rota.TokenPrincipal(tokenNamed("t"))
	for right, denied := range map[rota.Right][]*fsmpb.Op{
		rota.RightSubmit: {pauseOp("theirs", true, false), unscheduleOp("theirs"), triggerOp("theirs", "x"),
			backfillOp("theirs", 1, rota.OverlapSkip), pauseOp("mine", true, false)},
		rota.RightControl: {triggerOp("theirs", "x"), unscheduleOp("theirs"), triggerOp("mine", "x"),
			backfillOp("mine", 1, rota.OverlapSkip)},
	} {
		b := newClockwork(t)
		for _, q := range []string{"mine", "theirs"} {
			b.ok(queueOp(q))
			b.ok(scheduleOp(q, func(s *rota.ScheduleSpec) { s.Job.Queue = rota.QueueName(q) }))
		}
		b.ok(roleOp("r", rota.Grant{Right: right, Tenant: "*", Queue: "mine"}))
		b.ok(tokenOp(laterWish("t", "r")))
		for _, op := range denied {
			o := b.entry(by(caller, op)).Outcomes[0]
			if err := entry.OutcomeError(o); err == nil ||
				err.Kind != rota.KindNotFound { // an unreadable one does not exist
				t.Errorf("%s: %v is answered %v", right, op, o)
			}
		}
		b.ok(roleOp("r", rota.Grant{Right: right, Tenant: "*", Queue: "mine"},
			rota.Grant{Right: rota.RightRead, Tenant: "*", Queue: "*"}))
		b.refuses(rota.KindDenied, right.String(), by(caller,
			map[rota.Right]*fsmpb.Op{rota.RightSubmit: triggerOp("theirs", "x"),
				rota.RightControl: pauseOp("theirs", true, false)}[right]))
		if right == rota.RightControl {
			b.ok(by(caller, pauseOp("mine", true, false)))
			b.ok(by(caller, unscheduleOp("mine")))
			continue
		}
		b.ok(by(caller, triggerOp("mine", "x")))
		b.refuses(rota.KindConflict, "schedule", by(caller, scheduleOp("theirs",
			func(s *rota.ScheduleSpec) { s.Job.Queue = "mine" })))
		b.refuses(rota.KindDenied, "submit", by(caller, scheduleOp("mine",
			func(s *rota.ScheduleSpec) { s.Job.Queue = "theirs" })))
		b.refuses(rota.KindDenied, "operation", by(caller,
			&fsmpb.Op{Op: &fsmpb.Op_Fire{Fire: &fsmpb.Fire{Name: "mine"}}}))
		if got := fmt.Sprint(b.schedule("mine").Live); got != "[mine@+x]" {
			t.Error(got)
		}
	}
}

// laterWish is tokenWish for a bench with another date.
func laterWish(letter, role string) *fsmpb.CreateToken {
	w := tokenWish(letter, role)
	w.ExpiresMs = 1_760_000_040_000 + int64(24*time.Hour/time.Millisecond)
	return w
}

// TestSchedule_retried checks that an ended run can be retried, by the id that the schedule gave it.
func TestSchedule_retried(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	b.ok(scheduleOp("s"))
	b.ok(triggerOp("s", "x"))
	b.ok(cancelOp("s@+x"))
	b.ok(retryOp("s@+x"))
	if s := b.schedule("s"); len(s.Live) != 0 || s.Runs != 1 {
		t.Errorf("%+v", s)
	}
	b.state("s@+x", rota.JobQueued)
}
