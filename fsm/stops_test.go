package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

func breaker(trip, of, openMs, probes int64) rota.KeyRule {
	return rota.KeyRule{Name: "host", Breaker: rota.KeyBreaker{Trip: trip, Of: of, OpenMs: openMs, Probes: probes}}
}

// countKinds counts the events of some kinds.
func countKinds(events []rota.Event, kinds ...rota.EventKind) (n int) {
	for _, e := range events {
		if slices.Contains(kinds, e.Kind) {
			n++
		}
	}
	return n
}

func (b *bench) keyState(key string) rota.KeyState {
	b.t.Helper()
	list := KeyStates(&b.View, "default", key, func(*rota.KeyState) bool { return true })
	if len(list) != 1 {
		b.t.Fatalf("%d states of key %s", len(list), key)
	}
	return list[0]
}

// TestPauseKey follows a key that is paused twice: the later date applies, jobs that run continue, and the sequence
// keeps its order.
func TestPauseKey(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.rule(rota.KeyRule{Name: "host", Sequence: rota.SequenceSkip})
	l := b.leased("a", "w", ofKeys("host:1"))
	b.submit("b", ofKeys("host:1"), func(s *rota.JobSpec) { s.Priority = 9 })
	b.submit("c", ofKeys("host:1"), func(s *rota.JobSpec) { s.Priority = 1 })
	date := b.Header.Date()
	if e := b.entry(PauseKeyOp("", "default", "host:1", date+60_000, "429")).Events; countKinds(e, rota.EventKeyPaused) != 1 {
		t.Errorf("events %+v", e)
	}
	b.existed(PauseKeyOp("", "default", "host:1", date+60_000, "429"))
	b.existed(PauseKeyOp("", "default", "host:1", date+30_000, "less"))
	b.ok(PauseKeyOp("", "default", "host:1", date+90_000, "still 429"))
	b.ok(verb(rota.VerbComplete, l))
	b.wantStart()
	b.whyNames("b", "KEY_PAUSED", "key host:1 is paused until "+(date+90_000).String()+": still 429")
	if p := b.keyState("host:1").Pause; p == nil || p.Since.Date != date || p.Until.Date != date+90_000 {
		t.Errorf("pause %+v", p)
	}
	b.sound()
	b.pass(80_000)
	b.wantStart()
	if e := b.pass(20_000); countKinds(e, rota.EventKeyResumed) != 1 {
		t.Errorf("no event of its end: %+v", e)
	}
	b.ok(verb(rota.VerbComplete, b.wantStart("b")["b"]))
	b.ok(PauseKeyOp("", "default", "host:1", 0, ""))
	b.existed(PauseKeyOp("", "default", "host:1", b.Header.Date()+1000, ""))
	b.pass(100_000)
	b.wantStart()
	b.whyNames("c", "KEY_PAUSED", "key host:1 is paused until it is resumed")
	b.ok(ResumeKeyOp("", "default", "host:1"))
	b.existed(ResumeKeyOp("", "default", "host:1"))
	b.wantStart("c")
	b.sound()
}

// TestPauseKey_beforeItsJobs: a pause holds jobs that come later, and ends without any.
func TestPauseKey_beforeItsJobs(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.rule(rota.KeyRule{Name: "host", Value: "1"})
	b.rule(rota.KeyRule{Name: "host", Scope: rota.KeyOfCluster, Concurrency: 5})
	b.worker("w", 10)
	date := b.Header.Date()
	b.ok(PauseKeyOp("", "default", "host:1", date+5_000, ""))
	b.ok(PauseKeyOp("", "", "host:2", date+5_000, ""))
	b.submit("a", ofKeys("host:1"))
	b.submit("b", ofKeys("host:2"))
	b.submit("c", ofKeys("host:3"))
	b.wantStart("c")
	b.ok(cancelOp("b"))
	b.sound()
	b.pass(6_000)
	b.wantStart("a")
	if b.keyring.CountRows.Get(state.KeyCountKey("", "", "host:2")) != nil {
		t.Error("the pause of a key without jobs left a row")
	}
	b.sound()
}

// TestPauseKey_refused checks each refusal, which changes nothing.
func TestPauseKey_refused(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.rule(rota.KeyRule{Name: "host", Concurrency: 3})
	date := b.Header.Date()
	before := b.rowsDigest()
	b.refuses(rota.KindNotFound, "key", PauseKeyOp("", "default", "other:1", 0, ""))
	b.refuses(rota.KindNotFound, "key", PauseKeyOp("default", "default", "host:1", 0, ""))
	b.refuses(rota.KindNotFound, "key", PauseKeyOp("", "", "host:1", 0, "")) // of another scope
	b.refuses(rota.KindNotFound, "key", ResumeKeyOp("", "default", "other:1"))
	b.refuses(rota.KindInvalid, "key", PauseKeyOp("", "default", "host", 0, ""))
	b.refuses(rota.KindInvalid, "value", PauseKeyOp("", "default", "host:"+strings.Repeat("x", 200), 0, ""))
	b.refuses(rota.KindInvalid, "value", PauseKeyOp("", "default", "host:\x00", 0, ""))
	b.refuses(rota.KindInvalid, "tenant", PauseKeyOp("", "no tenant", "host:1", 0, ""))
	b.refuses(rota.KindInvalid, "until", PauseKeyOp("", "default", "host:1", date, ""))
	b.refuses(rota.KindInvalid, "until", PauseKeyOp("", "default", "host:1", -5, ""))
	b.refuses(rota.KindInvalid, "until", PauseKeyOp("", "default", "host:1", date+rota.Date(rota.MaxKeyPause)+1, ""))
	if b.rowsDigest() != before {
		t.Error("a refused pause changed something")
	}
	for field, r := range map[string]rota.KeyBreaker{"breaker.trip": {Of: 3}, "breaker.of": {Trip: 5, Of: 4},
		"breaker.open_ms": {Trip: 1, OpenMs: -1}, "breaker.probes": {Trip: 1, Probes: 1001},
		"breaker.reasons": {Trip: 1, Reasons: 1 << rota.ReasonDone}} {
		b.refuses(rota.KindInvalid, field, SetKeyRuleOp(&rota.KeyRule{Name: "x", Breaker: r}))
	}
	old := newBench(t)
	old.rule(rota.KeyRule{Name: "host", Concurrency: 3})
	old.refuses(rota.KindConflict, "rules_version", PauseKeyOp("", "default", "host:1", 0, ""))
	r := breaker(1, 1, 1, 1)
	old.refuses(rota.KindConflict, "rules_version", SetKeyRuleOp(&r))
	old.refuses(rota.KindConflict, "rules_version", SetKeyRuleOp(&rota.KeyRule{Name: "x", Concurrency: 1, RefuseFull: true}))
}

// retryAfterKey is a handler's snooze that pauses a key.
func retryAfterKey(key string, wait time.Duration) func(*peer.LeaseCommand) {
	return func(c *peer.LeaseCommand) {
		c.Fail, c.After, c.PauseKey, c.Text = peer.FailSnooze, wait, key, "status 429"
	}
}

// TestPauseKey_byHandler: the attempt does not count, and all jobs of the key wait for the date on which it is due.
func TestPauseKey_byHandler(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.rule(rota.KeyRule{Name: "host", Scope: rota.KeyOfCluster, Concurrency: 5})
	b.rule(rota.KeyRule{Name: "host", Queue: "default", Concurrency: 5})
	b.worker("w", 5)
	for _, id := range []string{"a", "b", "c"} {
		b.submit(id, ofKeys("host:1", "free:1"))
	}
	leases := b.wantStart("a", "b", "c")
	b.submit("d", ofKeys("host:1"))
	b.submit("e", ofKeys("host:1"), func(s *rota.JobSpec) { s.Tenant = "other" })
	b.refuses(rota.KindInvalid, "pause_key", verb(rota.VerbFail, leases["a"], retryAfterKey("host:2", time.Minute)))
	b.refuses(rota.KindInvalid, "pause_key", verb(rota.VerbFail, leases["a"], func(c *peer.LeaseCommand) {
		c.PauseKey, c.Fail = "host:1", peer.FailNoRetry
	}))
	b.ok(verb(rota.VerbFail, leases["a"], retryAfterKey("host:1", time.Minute)))
	b.ok(verb(rota.VerbFail, leases["b"], retryAfterKey("host:1", 20*time.Second)))
	b.ok(verb(rota.VerbFail, leases["c"], retryAfterKey("free:1", 10*time.Second))) // has no rule
	if j := b.state("a", rota.JobDelayed); j.Attempt != 0 {
		t.Errorf("attempt %d", j.Attempt)
	}
	b.whyNames("d", "KEY_PAUSED", "by a handler on worker w")
	x, _ := b.View.Why("e", 10)
	if strings.Contains(fmt.Sprint(x), "429") {
		t.Error("another job shows the handler's text")
	}
	b.sound()
	b.pass(50_000)
	b.wantStart()
	b.pass(11_000)
	b.wantStart("a", "b", "c", "d", "e")
	b.sound()
}

// TestBreaker follows a key through its states.
func TestBreaker(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.ok(queueOp("default", "attempt_max", "9", "backoff_base", "0", "lease_ms", "3600000", "ack_timeout_ms", "3600000"))
	b.rule(breaker(2, 3, 30_000, 0))
	b.worker("w", 20)
	ids := []string{"a", "b", "c", "d", "e", "f"}
	for _, id := range ids {
		b.submit(id, ofKeys("host:1"))
	}
	l := b.wantStart(ids...)
	started := l
	fail := func(id string) []rota.Event { return b.entry(verb(rota.VerbFail, started[rota.JobID(id)])).Events }
	fail("a")
	b.ok(verb(rota.VerbComplete, l["b"]))
	b.ok(verb(rota.VerbDecline, l["c"])) // neither
	if s := b.keyState("host:1").Breaker; s.State != rota.BreakerClosed || s.Failures != 1 {
		t.Fatalf("%+v", s)
	}
	if e := fail("d"); countKinds(e, rota.EventKeyOpened) != 1 {
		t.Fatalf("did not open: %+v", e)
	}
	date := b.Header.Date()
	fail("e") // it started before
	b.pass(29_000)
	b.wantStart()
	b.whyNames("a", "KEY_OPEN", "key host:1 is open after failures, the latest PROVIDER_FAIL, PROVIDER_FAIL; a probe may start at "+
		(date+30_000).String())
	if s := b.keyState("host:1").Breaker; s.State != rota.BreakerOpen || len(s.Latest) != 2 || s.Latest[1].Job != "d" {
		t.Fatalf("%+v", s)
	}
	b.sound()
	b.pass(2_000)
	probe := b.match()
	if len(probe) != 1 || len(b.match()) != 0 {
		t.Fatalf("%d probes", len(probe))
	}
	first := inOrder(probe)[0]
	b.whyNames("e", "KEY_OPEN", "it waits for the end of 1 probes")
	b.sound()
	b.ok(verb(rota.VerbDecline, first)) // neither: another may start
	b.pass(10_000)
	l = b.match()
	if len(l) != 1 {
		t.Fatalf("%d probes", len(l))
	}
	b.ok(verb(rota.VerbFail, inOrder(l)[0]))
	b.pass(55_000)
	b.wantStart()
	b.pass(6_000)
	l = b.match()
	if len(l) != 1 {
		t.Fatalf("%d probes after twice the time", len(l))
	}
	fail("f") // a late failure of the first attempts changes nothing
	if e := b.entry(verb(rota.VerbComplete, inOrder(l)[0])).Events; countKinds(e, rota.EventKeyClosed) != 1 {
		t.Fatalf("did not close: %+v", e)
	}
	b.pass(10_000)
	if l = b.match(); len(l) != 4 {
		t.Fatalf("%d jobs started after it closed", len(l))
	}
	b.sound()
	r := breaker(1, 0, 60_000, 0)
	r.Breaker.Reasons = 1 << rota.ReasonSnoozed
	b.rule(r)
	for _, l := range inOrder(l) {
		b.ok(verb(rota.VerbFail, l, retryAfterKey("", time.Second)))
		if len(b.keyState("host:1").Breaker.Latest) > 0 {
			break
		}
		t.Fatal("a reason of the rule does not open the key")
	}
	if e := b.entry(ResumeKeyOp("", "default", "host:1")).Events; countKinds(e, rota.EventKeyClosed) != 1 {
		t.Errorf("resuming does not close: %+v", e)
	}
	b.sound()
}

// TestBreaker_forgets: the outcomes of a key without jobs are kept for an hour, those of one with jobs longer.
func TestBreaker_forgets(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.ok(queueOp("default", "attempt_max", "1"))
	b.rule(breaker(2, 0, 1000, 0))
	for i := range 2 {
		l := b.leased(fmt.Sprint("a", i), "w", ofKeys("host:1"))
		b.ok(verb(rota.VerbFail, l))
		b.pass(limits.KeyMemory - 1000)
		if i == 0 {
			b.rule(breaker(3, 0, 1000, 0)) // a changed breaker keeps them
			b.rule(breaker(2, 0, 1000, 0))
		}
	}
	if s := b.keyState("host:1").Breaker; s.State != rota.BreakerProbing {
		t.Fatalf("%+v", s)
	}
	b.sound()
	if e := b.pass(3_000); countKinds(e, rota.EventKeyClosed) != 1 || b.keyring.CountRows.Len() != 0 {
		t.Errorf("%d rows, events %+v", b.keyring.CountRows.Len(), e)
	}
	b.sound()
}

// TestBreaker_ruleChanges: a rule without a breaker, or none, closes an open key.
func TestBreaker_ruleChanges(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*bench){
		"without": func(b *bench) { b.rule(rota.KeyRule{Name: "host", Concurrency: 5}) },
		"none":    func(b *bench) { b.ok(DeleteKeyRuleOp("", "host", "")) },
		"scope": func(b *bench) {
			r := breaker(1, 1, 60_000, 1)
			r.Scope = rota.KeyOfCluster
			b.rule(r)
		},
	} {
		b := newestBench(t)
		b.ok(queueOp("default", "backoff_base", "0"))
		b.rule(breaker(1, 1, 60_000, 1))
		l := b.leased("a", "w", ofKeys("host:1"))
		b.ok(verb(rota.VerbFail, l))
		b.wantStart()
		change(b)
		if len(b.match()) != 1 {
			t.Errorf("%s: the job did not start", name)
		}
		b.sound()
	}
}

// TestRefuseFull: a submission that could not start is refused, a retry is not.
func TestRefuseFull(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.ok(queueOp("default", "attempt_max", "1", "backoff_base", "0"))
	r := breaker(1, 1, 60_000, 1)
	r.Concurrency, r.RefuseFull = 2, true
	b.rule(r)
	l := b.leased("a", "w", ofKeys("host:1"))
	b.submit("b", ofKeys("host:1"))
	full := func(id, why string) {
		t.Helper()
		o := b.refuses(rota.KindExhausted, "keys", submitOp(jobSpec(id, ofKeys("host:1"))))
		if !strings.Contains(o.GetText(), why) {
			t.Errorf("got %q, want %q", o.GetText(), why)
		}
	}
	full("c", "its limit is reached, with 1 jobs that wait")
	b.submit("d", ofKeys("host:2"))
	b.ok(PauseKeyOp("", "default", "host:2", 0, ""))
	b.ok(verb(rota.VerbFail, l))
	full("c", "its breaker is open")
	b.ok(retryOp("a"))
	b.ok(cancelOp("a"))
	b.ok(cancelOp("b"))
	full("c", "its breaker is open")
	b.pass(61_000)
	b.submit("e", ofKeys("host:1"))
	full("c", "its breaker is probing")
	o := b.refuses(rota.KindExhausted, "keys", submitOp(jobSpec("f", ofKeys("host:2"))))
	if !strings.Contains(o.GetText(), "it is paused") {
		t.Error(o.GetText())
	}
	b.sound()
}

// breakerModel is the naive second implementation of SPEC 30.4: it keeps all outcomes and recomputes.
type breakerModel struct {
	r     rota.KeyBreaker
	state rota.BreakerState
	// epoch is how often it has opened in all, began the epoch in which each open attempt started.
	epoch    int
	began    map[rota.LeaseID]int
	outcomes []bool
	until    rota.Clock
	again    int
	passed   int64
}

func (m *breakerModel) room(now rota.Clock) int {
	if m.state == rota.BreakerOpen && now >= m.until {
		m.state, m.passed = rota.BreakerProbing, 0
	}
	switch m.state {
	case rota.BreakerOpen:
		return 0
	case rota.BreakerProbing:
		n := int(max(m.r.Probes, 1))
		for _, epoch := range m.began {
			if epoch == m.epoch {
				n--
			}
		}
		return n
	}
	return 1 << 30
}

func (m *breakerModel) ended(l rota.LeaseID, why rota.Reason, now rota.Clock) {
	m.room(now)
	epoch := m.began[l]
	delete(m.began, l)
	failed := why == rota.ReasonProviderFail
	if epoch != m.epoch || !failed && why != rota.ReasonDone {
		return
	}
	opens := failed
	if m.state == rota.BreakerClosed {
		m.outcomes = append(m.outcomes, failed)
		last, n := m.outcomes[max(0, len(m.outcomes)-int(max(m.r.Of, m.r.Trip))):], int64(0)
		for _, f := range last {
			if f {
				n++
			}
		}
		opens = n >= m.r.Trip
	} else if !failed {
		if m.passed++; m.passed >= max(m.r.Probes, 1) {
			*m = breakerModel{r: m.r, epoch: m.epoch, began: m.began}
		}
	}
	if opens {
		m.epoch++
		m.state, m.until, m.outcomes = rota.BreakerOpen, now+rota.Clock(m.r.OpenMs<<min(m.again, 5)), nil
		m.again++
	}
}

// TestBreaker_model compares random lives of a key with the model: after each round exactly as many jobs have started as
// it lets start.
func TestBreaker_model(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		breakerLife(t, seed)
	}
}

func breakerLife(t *testing.T, seed uint64) {
	d := rand.New(rand.NewPCG(seed, 304))
	b := newestBench(t)
	b.every = 5
	b.ok(queueOp("default", "lease_ms", "3600000", "ack_timeout_ms", "3600000", "attempt_max", "50", "backoff_base", "0"))
	b.worker("w", 1000)
	trip := 1 + d.Int64N(3)
	r := breaker(trip, trip+d.Int64N(4), 1000, d.Int64N(3))
	b.rule(r)
	m := &breakerModel{r: r.Breaker, began: map[rota.LeaseID]int{}}
	var open []rota.Lease
	for step := range 150 {
		switch k := d.IntN(8); {
		case k < 2:
			b.submit(fmt.Sprint("j", step), ofKeys("host:1"))
		case k < 3:
			b.pass(rota.Clock(d.Int64N(3000)))
		case k < 6 && len(open) > 0:
			at := d.IntN(len(open))
			l := open[at]
			open = slices.Delete(open, at, at+1)
			verbs := []rota.LeaseVerb{rota.VerbComplete, rota.VerbFail, rota.VerbFail, rota.VerbDecline}
			why := []rota.Reason{rota.ReasonDone, rota.ReasonProviderFail, rota.ReasonProviderFail, rota.ReasonDeclined}
			how := d.IntN(len(verbs))
			b.entry(sweepOp())
			m.ended(l.ID, why[how], b.Header.Clock)
			b.ok(verb(verbs[how], l))
		}
		b.entry(sweepOp())
		queued := 0
		b.JobTable.Scan(func(_ rota.JobID, j *state.JobRow) bool {
			if j.State == rota.JobQueued {
				queued++
			}
			return true
		})
		want, got := min(queued, max(0, m.room(b.Header.Clock))), 0
		for {
			leases := inOrder(b.match())
			if len(leases) == 0 {
				break
			}
			for _, l := range leases {
				got++
				m.began[l.ID] = m.epoch
				open = append(open, l)
			}
		}
		if got != want {
			t.Fatalf("seed %d, step %d: %d jobs started, want %d; %+v, row %+v", seed, step, got, want, m,
				b.keyring.CountRows.Get(state.KeyCountKey("", "default", "host:1")))
		}
	}
	b.sound()
}

// TestPauseKey_turns: a key that was paused takes up the turns of those that waited, and gets none in advance.
func TestPauseKey_turns(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.ok(queueOp("default", "fair_share", "off"))
	b.rule(rota.KeyRule{Name: "k", Queue: "default", Group: true})
	for i := range 6 {
		for _, key := range []string{"k:a", "k:b"} {
			b.submit(fmt.Sprint(key[2:], i), ofKeys(key))
		}
	}
	b.ok(PauseKeyOp("default", "default", "k:b", b.Header.Date()+1_000, ""))
	b.worker("w", 3)
	round := func(as, bs int) {
		t.Helper()
		got := map[rota.JobID]int{}
		for id, l := range b.match() {
			got[id[:1]]++
			b.ok(verb(rota.VerbComplete, l))
		}
		if got["a"] != as || got["b"] != bs {
			t.Fatalf("started %v, want %d of a and %d of b", got, as, bs)
		}
		b.sound()
	}
	round(3, 0)
	b.pass(2_000)
	round(1, 2)
	round(2, 1)
	round(0, 3)
}

// TestPauseKey_withRate: a key that is stopped while it has tokens is not reviewed again and again, which would leave no
// sweep for other timers.
func TestPauseKey_withRate(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]rota.KeyRule{
		"rate":     {Name: "host", Rate: 100, PeriodMs: 3_600_000, Burst: 100},
		"weighted": {Name: "host", Rate: 100, PeriodMs: 3_600_000, Unit: "u"},
	} {
		b := newestBench(t)
		b.rule(r)
		b.rule(rota.KeyRule{Name: "other", Concurrency: 1})
		b.ok(queueOp("default", "ack_timeout_ms", "3600000", "lease_ms", "3600000"))
		b.worker("w", 100)
		for i := range 60 {
			b.submit(fmt.Sprint("j", i), ofKeys("host:1"))
		}
		if n := len(b.match()); n != 60 {
			t.Fatalf("%s: %d started", name, n)
		}
		b.submit("waits", ofKeys("host:1"))
		b.submit("other", ofKeys("other:1"))
		b.ok(PauseKeyOp("", "default", "host:1", b.Header.Date()+100_000, ""))
		b.ok(PauseKeyOp("", "default", "other:1", b.Header.Date()+5_000, ""))
		now := b.Header.Clock
		if c := b.keyring.CountRows.Get(state.KeyCountKey("", "default", "host:1")); c.Due <= now ||
			c.Due > now+100_000 {
			t.Errorf("%s: due at %d, now is %d", name, c.Due, now)
		}
		b.pass(6_000)
		b.wantStart("other")
		b.sound()
		b.pass(100_000)
		b.wantStart("waits")
		b.sound()
	}
}

// TestBreaker_snapshot: a machine restored while an old attempt is open remembers the same failures as the other.
func TestBreaker_snapshot(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.ok(queueOp("default", "attempt_max", "9", "backoff_base", "0"))
	b.rule(breaker(3, 3, 1000, 0))
	b.worker("w", 9)
	ids := []string{"a", "b", "c", "d", "e"}
	for _, id := range ids {
		b.submit(id, ofKeys("host:1"))
	}
	l := b.wantStart(ids...)
	b.ok(verb(rota.VerbFail, l["a"]))
	for _, id := range []rota.JobID{"b", "c", "d"} {
		b.ok(verb(rota.VerbComplete, l[id]))
	}
	if k := b.keyState("host:1"); len(k.Breaker.Latest) != 0 {
		t.Errorf("%+v, which no snapshot has", k.Breaker)
	}
	b.ok(verb(rota.VerbFail, l["e"]))
	if k := b.keyState("host:1"); len(k.Breaker.Latest) != 1 || k.Breaker.Failures != 1 {
		t.Errorf("%+v", k.Breaker)
	}
	b.sound()
}

// TestRefuseFull_counts: only QUEUED jobs take the place of a new one, as do leases that have outlived their jobs.
func TestRefuseFull_counts(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.rule(rota.KeyRule{Name: "k", Concurrency: 1, RefuseFull: true})
	b.rule(rota.KeyRule{Name: "m", Rate: 10, PeriodMs: 60_000, Burst: 500, Unit: "u", RefuseFull: true})
	full := func(id, key, why string, more ...func(*rota.JobSpec)) {
		t.Helper()
		o := b.refuses(rota.KindExhausted, "keys", submitOp(jobSpec(id, append(more, ofKeys(key))...)))
		if !strings.Contains(o.GetText(), why) {
			t.Errorf("got %q, want %q", o.GetText(), why)
		}
	}
	b.submit("later", ofKeys("k:1"), func(s *rota.JobSpec) { s.Delay = 24 * time.Hour })
	l := b.leased("a", "w", ofKeys("k:1"))
	full("b", "k:1", "with 0 jobs that wait")
	b.ok(verb(rota.VerbAck, l))
	b.ok(cancelOp("a"))
	full("b", "k:1", "with 0 jobs that wait") // its lease is open
	b.ok(verb(rota.VerbDecline, l))
	b.submit("b", ofKeys("k:1"))
	full("c", "k:1", "with 1 jobs that wait")
	for i := range 5 {
		b.submit(fmt.Sprint("m", i), ofKeys("m:1"), costs("u", 100))
	}
	full("m5", "m:1", "with 5 jobs that wait", costs("u", 100))
	full("m6", "m:1", "its limit is reached", costs("u", 1))
	b.submit("large", ofKeys("m:2"), costs("u", 9_000)) // starts from an empty bucket
	full("m7", "m:2", "its limit is reached", costs("u", 1))
	b.sound()
	b.rule(rota.KeyRule{Name: "m", Rate: 10, PeriodMs: 60_000, Burst: 500, Unit: "u"})
	b.submit("m7", ofKeys("m:2"))
	b.sound()
	b.rule(rota.KeyRule{Name: "m", Rate: 10, PeriodMs: 60_000, Burst: 500, Unit: "u", RefuseFull: true})
	b.sound()
}

// TestPause_extends checks that no pause shortens another: both end by the clock, and dates may have moved in between.
func TestPause_extends(t *testing.T) {
	t.Parallel()
	at := func(clock rota.Clock, date rota.Date) rota.Moment { return rota.Moment{Clock: clock, Date: date} }
	present := state.Pause{On: true, Since: at(1, 10), Until: at(100, 1_000)}
	for _, to := range []rota.Moment{at(100, 1_000), at(99, 1_000), at(99, 2_000)} {
		if p := present; p.Extend(state.Pause{On: true, Until: to}) || p.Until != present.Until {
			t.Errorf("a pause until %+v replaced one until %+v", to, present.Until)
		}
	}
	for _, to := range []rota.Moment{at(101, 900), {}} {
		if p := present; !p.Extend(state.Pause{On: true, Until: to}) || p.Until != to || p.Since != present.Since {
			t.Errorf("a pause until %+v gave %+v", to, p)
		}
	}
}

// TestKeyWithoutARule_namesTenantAndQueue checks that the refusals of a key that no rule counts have no empty names.
func TestKeyWithoutARule_namesTenantAndQueue(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	for _, c := range []struct{ queue, tenant, want string }{
		{"", "t", `tenant "t" in all queues together: `},
		{"default", "", `all tenants together in queue "default": `},
	} {
		queue, tenant := rota.QueueName(c.queue), rota.TenantID(c.tenant)
		for _, op := range []*fsmpb.Op{PauseKeyOp(queue, tenant, "k:1", 0, ""), SkipKeyOp(queue, tenant, "k:1", "j")} {
			if text := b.refuses(rota.KindNotFound, "key", op).GetText(); !strings.Contains(text, c.want) {
				t.Errorf("%q lacks %q", text, c.want)
			}
		}
	}
}
