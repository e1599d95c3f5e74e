package eta_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/foresight/eta"
	"github.com/rotasched/rota/internal/limits"
)

// rig is a machine with a queue q, whose entries are written by hand.
type rig struct {
	t   *testing.T
	m   *fsm.Machine
	now int64
}

func newRig(t *testing.T, workers, slots int, settings ...string) *rig {
	r := &rig{t: t, m: fsm.New(), now: 1_700_000_000_000}
	random := sha256.Sum256([]byte("x"))
	r.put(&fsmpb.Op{Op: &fsmpb.Op_BeginTerm{BeginTerm: &fsmpb.BeginTerm{Term: 1, Node: "n", Random: random[:],
		ClusterId: "c", StartMs: r.now}}},
		&fsmpb.Op{Op: &fsmpb.Op_SwitchRules{SwitchRules: &fsmpb.SwitchRules{Version: entry.RulesVersion}}})
	r.set(append([]string{"fair_share=off", "ranking=fifo", "oldest_every=0"}, settings...)...)
	for i := range workers {
		spec := rota.WorkerSpec{ID: rota.WorkerID(fmt.Sprintf("w%d", i)), Slots: int32(slots), CPUMilli: 1_000_000,
			Queues: []rota.QueueName{"q"}}
		secret := sha256.Sum256([]byte(spec.ID))
		r.put(&fsmpb.Op{Op: &fsmpb.Op_Register{Register: &fsmpb.Register{SecretHash: secret[:],
			Spec: entry.WorkerOp(&spec)}}})
	}
	return r
}

func (r *rig) set(settings ...string) {
	set := &fsmpb.SetQueue{Name: "q"}
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		set.Set = append(set.Set, &fsmpb.Label{Key: key, Value: value})
	}
	r.put(&fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: set}})
}

func (r *rig) put(ops ...*fsmpb.Op) {
	r.t.Helper()
	data, err := entry.Seal(&fsmpb.Entry{Term: 1, NowMs: r.now, Ops: ops}, max(r.m.Head().Rules, entry.FirstRules))
	if err != nil {
		r.t.Fatal(err)
	}
	a, err := r.m.Apply(r.m.Head().Index+1, 1, data)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, o := range a.Outcomes {
		if err := entry.OutcomeError(o); err != nil {
			r.t.Fatal(err)
		}
	}
}

// submit submits jobs of a tenant, and decides.
func (r *rig) submit(tenant rota.TenantID, ids ...string) {
	r.t.Helper()
	r.submitAs(tenant, func(*rota.JobSpec) {}, ids...)
}

// submitAs submits changed jobs, and decides.
func (r *rig) submitAs(tenant rota.TenantID, change func(*rota.JobSpec), ids ...string) {
	r.t.Helper()
	for part := range slices.Chunk(ids, 500) {
		var ops []*fsmpb.Op
		for _, id := range part {
			spec := rota.NewJobSpec("frame", nil)
			spec.ID, spec.Queue, spec.Tenant = rota.JobID(id), "q", tenant
			change(&spec)
			ops = append(ops, &fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(&spec)}}})
		}
		r.put(ops...)
	}
	r.decide()
}

// pass lets a second pass, and decides.
func (r *rig) pass() {
	r.t.Helper()
	r.now += 1_000
	r.put(&fsmpb.Op{Op: &fsmpb.Op_Barrier{Barrier: &fsmpb.Barrier{}}})
	r.decide()
}

func (r *rig) decide() {
	r.t.Helper()
	for r.m.Waiting() {
		rounds := r.m.Decide(limits.MaxDecide)
		if len(rounds) == 0 {
			return
		}
		for _, round := range rounds {
			r.put(&fsmpb.Op{Op: &fsmpb.Op_Round{Round: round}})
		}
	}
}

// tens returns a past in which every job of a tenant took equally long.
func tens(tenants ...rota.TenantID) *eta.Past {
	p := eta.NewPast()
	for range 5 {
		for _, t := range tenants {
			p.Add(eta.Ran{Queue: "q", Tenant: t, Type: "frame", Ms: 10_000})
		}
	}
	return p
}

func ids(prefix string, n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("%s%d", prefix, i))
	}
	return list
}

func (r *rig) ask(of string, past *eta.Past) *eta.Forecast {
	r.t.Helper()
	before := r.m.Freeze().Info()
	x, err := eta.Ask(context.Background(), r.m.Freeze(), rota.JobID(of), past)
	if err != nil {
		r.t.Fatal(err)
	}
	if after := r.m.Freeze().Info(); after != before {
		r.t.Fatalf("asking changed the state from %+v to %+v", before, after)
	}
	return x
}

// TestAsk checks that if all run times are known, the start is exact, and that the jobs it depends on are counted.
func TestAsk(t *testing.T) {
	r := newRig(t, 1, 2)
	r.submit("acme", ids("a", 2)...) // they run
	r.submit("blue", ids("b", 3)...)
	x := r.ask("b2", tens("acme", "blue"))
	if want := (eta.Raw{Low: 20_000, Middle: 20_000, High: 20_000, Many: true, Asked: true}); x.Never || x.Raw != want {
		t.Errorf("the third behind two slots starts at %+v (never: %v)", x.Raw, x.Never)
	}
	want := []eta.Hang{{Tenant: "acme", Queue: "q", Worker: "w0", Jobs: 2}, {Tenant: "blue", Queue: "q", Jobs: 2}}
	if x.Worker != "w0" || !slices.Equal(x.Hangs, want) {
		t.Errorf("on %s it depends on %+v", x.Worker, x.Hangs)
	}
	if len(x.Guessed) != 0 || x.Cut != 0 || x.Beyond {
		t.Errorf("guessed, cut or beyond: %+v", x)
	}
	again := r.ask("b2", tens("acme", "blue"))
	if again.Raw != x.Raw || !slices.Equal(again.Hangs, x.Hangs) {
		t.Errorf("the same question has another answer: %+v", again)
	}
}

// TestAsk_otherWorkers checks that jobs of a queue that other workers serve change nothing, and are not listed,
// although they start before.
func TestAsk_otherWorkers(t *testing.T) {
	r := newRig(t, 1, 2)
	spec := rota.WorkerSpec{ID: "elsewhere", Slots: 1, Queues: []rota.QueueName{"other"}}
	secret := sha256.Sum256([]byte(spec.ID))
	r.put(&fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "other"}}},
		&fsmpb.Op{Op: &fsmpb.Op_Register{Register: &fsmpb.Register{SecretHash: secret[:],
			Spec: entry.WorkerOp(&spec)}}})
	r.submit("acme", ids("a", 2)...)
	r.submit("blue", ids("b", 3)...)
	elsewhere := func(s *rota.JobSpec) { s.Queue = "other" }
	r.submitAs("cyan", elsewhere, "c0")
	past := eta.NewPast()
	for i := range 5 { // run times that are drawn
		past.Add(eta.Ran{Queue: "q", Tenant: "acme", Type: "frame", Ms: int64(10_000 + 1_000*i)})
	}
	before := r.ask("b2", past)
	r.submitAs("cyan", elsewhere, ids("d", 3)...)
	after := r.ask("b2", past)
	if before.Raw != after.Raw || !slices.Equal(before.Hangs, after.Hangs) {
		t.Errorf("with jobs of other workers\n%+v\nbecame\n%+v", before, after)
	}
	if slices.ContainsFunc(after.Hangs, func(h eta.Hang) bool { return h.Queue != "q" }) {
		t.Errorf("it depends on %+v", after.Hangs)
	}
}

// TestAsk_unknown checks that an unknown run time is assumed, and reported as such.
func TestAsk_unknown(t *testing.T) {
	r := newRig(t, 1, 1)
	r.submit("acme", "a0", "a1")
	if x := r.ask("a1", eta.NewPast()); x.Never || len(x.Guessed) == 0 || x.Middle != 60_000 {
		t.Errorf("nothing is known: %+v", x)
	}
}

// TestAsk_drawn checks that different run times give an interval.
func TestAsk_drawn(t *testing.T) {
	r := newRig(t, 1, 1)
	r.submit("acme", ids("a", 6)...)
	p := eta.NewPast()
	for i := range int64(20) {
		p.Add(eta.Ran{Queue: "q", Tenant: "acme", Type: "frame", Ms: (i + 1) * 1_000})
	}
	if x := r.ask("a5", p); x.Low >= x.Middle || x.Middle >= x.High || x.Middle < 20_000 || x.Middle > 90_000 {
		t.Errorf("behind 5 runs of 1 to 20 s: %+v", x.Raw)
	}
}

// TestAsk_never checks that a job whose queue is paused, or that no worker accepts, has no date.
func TestAsk_never(t *testing.T) {
	r := newRig(t, 1, 1, "paused=on")
	r.submit("acme", "a0")
	if x := r.ask("a0", tens("acme")); !x.Never {
		t.Errorf("of a paused queue: %+v", x)
	}
	r = newRig(t, 0, 1)
	r.submit("acme", "a0")
	if x := r.ask("a0", tens("acme")); !x.Never {
		t.Errorf("without a worker: %+v", x)
	}
}

// TestAsk_elapsed checks that the expected end of a running job is counted from its own start, and is not later when
// asked later.
func TestAsk_elapsed(t *testing.T) {
	r := newRig(t, 1, 1)
	r.submit("acme", "a0", "a1")
	for elapsed := int64(0); elapsed < 10_000; elapsed += 1_000 {
		if elapsed > 0 {
			r.pass()
		}
		if x := r.ask("a1", tens("acme")); x.Middle != 10_000-elapsed {
			t.Errorf("behind a job of 10 s that has run for %d ms: %+v", elapsed, x.Raw)
		}
	}
}

// TestAsk_priority checks that more urgent jobs of another tenant come first, and less urgent ones do not.
func TestAsk_priority(t *testing.T) {
	r := newRig(t, 1, 1, "ranking=aging", "aging_factor=1h")
	r.submit("acme", "a0", "a1")
	r.submitAs("blue", func(spec *rota.JobSpec) { spec.Priority = 1 }, "b0")
	if x := r.ask("a1", tens("acme", "blue")); x.Middle != 20_000 ||
		!slices.Contains(x.Hangs, eta.Hang{Tenant: "blue", Queue: "q", Jobs: 1}) {
		t.Errorf("behind one that runs and one that is more urgent: %+v, depends on %+v", x.Raw, x.Hangs)
	}
	if x := r.ask("b0", tens("acme", "blue")); x.Middle != 10_000 ||
		slices.ContainsFunc(x.Hangs, func(h eta.Hang) bool { return h.Worker == "" }) {
		t.Errorf("the urgent one: %+v, depends on %+v", x.Raw, x.Hangs)
	}
}

// TestAsk_held checks that a job that holds a worker is simulated, however many are placed before it.
func TestAsk_held(t *testing.T) {
	r := newRig(t, 1, 2, "ranking=aging", "aging_factor=1h", "hold_after=1s")
	needs := func(cpu int64, priority int32) func(*rota.JobSpec) {
		return func(spec *rota.JobSpec) { spec.CPUMilli, spec.Priority = cpu, priority }
	}
	r.submitAs("acme", needs(1_000, 0), "a0")
	r.submitAs("acme", needs(1_000_000, 10), "wide")
	for range 3 {
		r.pass()
	}
	r.submitAs("blue", needs(1_000, 0), ids("b", 3_100)...)
	past := tens("acme", "blue")
	if x := r.ask("wide", past); x.Never || x.Middle != 7_000 {
		t.Errorf("the one that holds the worker: %+v", x)
	}
	if x := r.ask("b7", past); x.Never || x.Low < 17_000 || x.Cut == 0 {
		t.Errorf("one of those behind it: %+v", x)
	}
}

// TestAsk_beyond checks that a job far back starts at the pace of the jobs before it.
func TestAsk_beyond(t *testing.T) {
	r := newRig(t, 10, 10)
	n := 9_000
	r.submit("acme", ids("a", n+100)...)
	x := r.ask(fmt.Sprintf("a%d", n+99), tens("acme"))
	if !x.Beyond || x.Cut == 0 {
		t.Fatalf("nothing is left out: %+v", x)
	}
	if want := int64(n/100) * 10_000; x.Middle < want*95/100 || x.Middle > want*105/100 {
		t.Errorf("behind %d jobs of 10 s on 100 slots it starts after %d ms", n, x.Middle)
	}
	if x := r.ask("a250", tens("acme")); x.Beyond || x.Middle < 20_000 || x.Middle > 20_200 {
		t.Errorf("the 251st of 100 slots: %+v", x)
	}
}

// TestErrors checks that learning from errors moves the interval until more than 9 of 10 are within, and hardly more
// than that.
func TestErrors(t *testing.T) {
	e := eta.NewErrors()
	raw := eta.Raw{Low: 90_000, Middle: 100_000, High: 110_000, Many: true}
	in := 0
	for i := range 2_000 {
		start := int64(20_000 + i*7_919%100*4_000) // 20 s to 416 s, evenly
		if x := e.Of(raw); i >= 1_000 && start >= x.Earliest && start <= x.Latest {
			in++
		}
		e.Learn(raw, start)
	}
	if in < 900 || in > 970 {
		t.Errorf("%d of 1,000 are within", in)
	}
	if x := e.Of(raw); x.Earliest > x.Expected || x.Expected > x.Latest || x.Earliest < 10_000 || x.Latest > 600_000 {
		t.Errorf("the interval is %+v", x)
	}
	if e.Learned != 2_000 {
		t.Errorf("%d are counted", e.Learned)
	}
}

// TestErrors_asked checks that jobs that were asked for have wider intervals than other noted jobs, if they miss more
// often.
func TestErrors_asked(t *testing.T) {
	e := eta.NewErrors()
	beside := eta.Raw{Low: 90_000, Middle: 100_000, High: 110_000, Many: true}
	asked := beside
	asked.Asked = true
	in := 0
	for i := range 4_000 {
		for k := range 8 {
			e.Learn(beside, int64(80_000+(i*8+k)*7_919%100*400)) // 80 s to 120 s
		}
		start := int64(20_000 + i*7_919%100*4_000) // 20 s to 416 s
		if x := e.Of(asked); i >= 2_000 && start >= x.Earliest && start <= x.Latest {
			in++
		}
		e.Learn(asked, start)
	}
	if in < 1_800 || in > 1_940 {
		t.Errorf("%d of 2,000 that were asked for are within", in)
	}
	if x, y := e.Of(asked), e.Of(beside); x.Earliest >= y.Earliest || x.Latest <= y.Latest {
		t.Errorf("the interval of one that was asked for is %+v, of its neighbor %+v", x, y)
	}
}

// TestErrors_late checks that a job later than its forecast is learned from at once, and that one that may still be in
// time is not.
func TestErrors_late(t *testing.T) {
	e := eta.NewErrors()
	raw := eta.Raw{Low: 90_000, Middle: 100_000, High: 110_000, Many: true, Asked: true}
	x := e.Of(raw)
	if e.Settle(raw, x.Latest, -1) || e.Of(raw) != x {
		t.Errorf("waiting until %d ms counted as late", x.Latest)
	}
	if !e.Settle(raw, x.Latest+1, -1) || e.Of(raw).Latest <= x.Latest || e.Learned != 1 {
		t.Errorf("waiting beyond it was not: %+v, then %+v", x, e.Of(raw))
	}
	if x := e.Of(raw); !e.Settle(raw, 500_000, 1_000) || e.Of(raw).Earliest >= x.Earliest {
		t.Errorf("a start before it was not learned: %+v, then %+v", x, e.Of(raw))
	}
}

// BenchmarkAsk asks for a job of 100,000 pending for 1,000 slots: the last one, and the last that is simulated
// individually; with equal run times, with run times that differ by a factor of 60, and under fair share with
// backfilling as well.
func BenchmarkAsk(b *testing.B) {
	spread := eta.NewPast()
	for i := range int64(64) {
		for t := range 20 {
			spread.Add(eta.Ran{Queue: "q", Tenant: rota.TenantID(fmt.Sprint("t", t)), Type: "frame",
				Ms: 1_000 * (1 + i*i%60)})
		}
	}
	for _, load := range []struct {
		name     string
		tenants  int
		past     *eta.Past
		settings []string
	}{{"alike", 1, tens("t0"), nil}, {"spread", 1, spread, nil}, {"shared", 20, spread,
		[]string{"fair_share=on", "backfill=easy", "estimate=quantile"}}} {
		r := newRig(&testing.T{}, 100, 10, load.settings...)
		for t := range load.tenants {
			r.submit(rota.TenantID(fmt.Sprint("t", t)), ids(fmt.Sprint("t", t, "-"), 101_000/load.tenants)...)
		}
		last := 101_000/load.tenants - 1
		for _, ask := range []struct {
			name string
			job  int
		}{{"last", last}, {"within", 2_900 / load.tenants}} {
			b.Run(load.name+"/"+ask.name, func(b *testing.B) {
				for b.Loop() {
					if _, err := eta.Ask(context.Background(), r.m.Freeze(), rota.JobID(fmt.Sprint("t0-", ask.job)),
						load.past); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
