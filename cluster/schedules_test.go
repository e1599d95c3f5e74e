package cluster

import (
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/meter"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/internal/peer"
)

// everySecond sets a schedule that is due each second, and returns it.
func everySecond(t *testing.T, n *Node) rota.Schedule {
	t.Helper()
	s := rota.NewScheduleSpec("s", rota.NewJobSpec("t", nil))
	s.Every, s.Overlap, s.Job.Queue, s.Job.Tenant = time.Second, rota.OverlapAllow, rota.DefaultQueue, rota.DefaultTenant
	set, err := n.SetSchedule(within(t, ample), s)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// decidedOnce checks that each date since a schedule was set was decided exactly once.
func decidedOnce(t *testing.T, s *rota.Schedule) {
	t.Helper()
	if due, decided := uint64((s.Through-s.Set)/1000), s.Runs+s.Skipped+s.Missed; due != decided {
		t.Errorf("%d dates were due from %s to %s, %d became runs, %d were skipped, %d missed", due, s.Set, s.Through,
			s.Runs, s.Skipped, s.Missed)
	}
	for _, d := range s.Decisions {
		if d.What == rota.FateKnown {
			t.Errorf("%s was already decided", d.Date)
		}
	}
}

// TestSchedules_leadersChange: leaders die, and the walls of two of three nodes go an hour ahead and back: each date is
// decided once.
func TestSchedules_leadersChange(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	skew := map[rota.NodeID]*atomic.Int64{"n1": {}, "n2": {}, "n3": {}}
	for id, by := range skew {
		b.plan(id, 3)
		c := b.addrs[id]
		c.Environment.Wall = func() time.Time { return time.Now().Add(time.Duration(by.Load())) }
		b.addrs[id] = c
	}
	b.startPlanned()
	set := everySecond(t, b.loyal())
	seen := func() (s rota.Schedule) {
		s, _, err := b.leader().Schedule(within(t, ample), "s", peer.ReadOptions{})
		if err != nil {
			t.Log(err) // between two leaders
		}
		return s
	}
	through := set.Through
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, time.Hour} {
		b.eventually("dates are decided", func() bool { s := seen(); return s.Through > through && s.Runs > 0 })
		skew["n1"].Store(int64(ahead))
		skew["n2"].Store(int64(ahead))
		leader := b.leader().cfg.Node
		s := seen()
		through = max(through, s.Through)
		b.stop(leader)
		b.start(leader)
	}
	var last rota.Schedule
	b.eventually("a leader whose wall is ahead leaps over an hour", func() bool {
		if b.leader().cfg.Node == "n3" { // its wall is right
			b.stop("n3")
			b.leader()
			b.start("n3")
		}
		last = seen()
		return last.Through > through && last.Missed >= 3_000
	})
	decidedOnce(t, &last)
	if last.Runs == 0 {
		t.Errorf("no run among %d dates that were missed", last.Missed)
	}
	auditedBackup(t, b.leader(), 0)
}

// TestSchedules_byHand: rejections at the edge, backfills, triggers and the next dates.
func TestSchedules_byHand(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n, ctx := b.leader(), within(t, ample)
	s := rota.NewScheduleSpec("s", rota.NewJobSpec("t", nil))
	s.Cron, s.TZ, s.Job.Queue, s.Job.Tenant = "30 2 * * *", "Europe/Berlin", rota.DefaultQueue, rota.DefaultTenant
	for field, change := range map[string]func(*rota.ScheduleSpec){
		"tz":        func(s *rota.ScheduleSpec) { s.TZ = "Mars/X" },
		"cron":      func(s *rota.ScheduleSpec) { s.Cron = "61 * * * *" },
		"jitter_ms": func(s *rota.ScheduleSpec) { s.Jitter = -time.Second },
	} {
		bad := s
		change(&bad)
		if _, err := n.SetSchedule(ctx, bad); rota.KindOf(err) != rota.KindInvalid ||
			rota.ErrorOf(err).Subject != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	set, err := n.SetSchedule(ctx, s)
	if err != nil || set.Next <= set.Through {
		t.Fatal(set, err)
	}
	dates, _, _, err := n.NextDates(ctx, "s", 0, 3, peer.ReadOptions{})
	if err != nil || len(dates) != 3 || dates[0] != set.Next {
		t.Error(dates, err)
	}
	summer, _ := rota.ParseDate("2025-03-29T01:30:00Z") // the following night is an hour shorter
	passed, _, _, err := n.NextDates(ctx, "s", summer-1, 2, peer.ReadOptions{})
	if err != nil || len(passed) != 2 || passed[0] != summer || passed[1] != summer+(23*60+30)*60*1000 {
		t.Error(passed, err)
	}
	if o, err := n.TriggerSchedule(ctx, "s", "x"); err != nil || o.ID != "s@+x" || o.State != rota.JobQueued {
		t.Error(o, err)
	}
	from, _ := rota.ParseDate("2025-03-29T00:00:00Z")
	filled, _, err := n.BackfillSchedule(ctx, "s", from, from+2*24*3600*1000, rota.OverlapQueueAll)
	if err != nil || filled != 2 {
		t.Error(filled, err)
	}
	if x, _, err := n.Why(ctx, "s@2025-03-29T01:30:00Z", rota.WhyQuery{Others: true}, peer.ReadOptions{}); err != nil ||
		x.Reasons[0].Reason != "WAITING_FOR_RUN" {
		t.Error(x, err)
	}
	if now, _, _ := n.Schedule(ctx, "s", peer.ReadOptions{}); len(now.Waiting) != 2 ||
		now.Waiting[0] != "s@2025-03-29T01:30:00Z" || now.Waiting[1] != "s@2025-03-30T01:00:00Z" {
		t.Errorf("%+v", now)
	}
	if _, _, err := n.BackfillSchedule(ctx, "s", from-5*365*24*3600*1000, from,
		rota.OverlapQueueAll); rota.KindOf(err) != rota.KindInvalid {
		t.Error(err)
	}
	for says, span := range map[string][2]rota.Date{"from_ms: got 0, want 1 to 70368744177664": {0, 0},
		"from_ms: got -5, want 1 to 70368744177664": {-5, 9},
		"until_ms: got 9223372036854775807, want 1 to 70368744177664": {5,
			math.MaxInt64},
		"until_ms: got 0, want 1 to 70368744177664":                                                           {5, 0},
		"until_ms: got 4 (1970-01-01T00:00:00.004Z), want 5 (1970-01-01T00:00:00.005Z, which is from_ms) to ": {5, 4}} {
		if _, _, err := n.BackfillSchedule(ctx, "s", span[0], span[1],
			rota.OverlapQueueAll); rota.KindOf(err) != rota.KindInvalid || !strings.Contains(err.Error(), says) {
			t.Errorf("a backfill of %d: got %v, want %s", span, err, says)
		}
	}
	if err := n.DeleteSchedule(ctx, "s"); err != nil || n.DeleteSchedule(ctx, "s") != nil {
		t.Error(err)
	}
	if _, _, _, err := n.NextDates(ctx, "s", 0, 3, peer.ReadOptions{}); rota.KindOf(err) != rota.KindNotFound {
		t.Error(err)
	}
}

// TestSchedules_aZoneThatIsNotThere: a schedule in a zone that this binary lacks, set by a node of a newer release, is
// a problem of the node, which fires none of its dates.
func TestSchedules_aZoneThatIsNotThere(t *testing.T) {
	t.Parallel()
	n := startBench(t, 1).leader()
	everySecond(t, n)
	problems := func() string { return strings.Join(n.zones.Problems(), "\n") }
	if got := problems(); got != "" {
		t.Fatal(got)
	}
	s := rota.NewScheduleSpec("mars", rota.NewJobSpec("t", nil))
	s.Cron, s.TZ, s.Job.Queue, s.Job.Tenant = "* * * * *", "Mars/Olympus", rota.DefaultQueue, rota.DefaultTenant
	if _, _, err := n.proposer.proposeOne(within(t, ample), entry.ScheduleOp(&s)); err != nil {
		t.Fatal(err)
	}
	if got := problems(); !strings.Contains(got, `1 active schedules are in time zone "Mars/Olympus"`) {
		t.Errorf("%q", got)
	}
	if got := strings.Join(n.problems(), "\n"); !strings.Contains(got, "Mars/Olympus") {
		t.Errorf("its health problems are %q", got)
	}
	if _, err := n.PauseSchedule(within(t, ample), "mars", ""); err != nil {
		t.Fatal(err)
	}
	if got := problems(); got != "" {
		t.Errorf("a date of it is due: %q", got)
	}
}

// TestSchedules_counted: dates are counted by outcome.
func TestSchedules_counted(t *testing.T) {
	t.Parallel()
	m := meter.New()
	m.CountEvents([]rota.Event{{Kind: rota.EventScheduleFired}, {Kind: rota.EventScheduleSkipped},
		{Kind: rota.EventScheduleMissed, Payload: `{"count":7}`}})
	got := seriesOf([]prometheus.Collector{m.Dates}, "rota_schedule_dates_total")
	sum := 0.0
	for _, n := range got {
		sum += n
	}
	if len(got) != 3 || sum != 9 {
		t.Errorf("%v", got)
	}
}
