package fsm

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/budgets"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/peer"
)

const unit = rota.CostUnit

func usd(name string, limit int64, change ...func(*rota.Budget)) *fsmpb.Op {
	b := rota.Budget{Name: rota.BudgetName(name), Unit: "usd", Limit: rota.Cost(limit * unit)}
	for _, c := range change {
		c(&b)
	}
	return SetBudgetOp(&b)
}

func (b *bench) budget(name string, of ...string) rota.BudgetAccount {
	b.t.Helper()
	list := BudgetAccounts(&b.View, rota.BudgetName(name), strings.Join(of, ""), 1, false)
	if len(list) == 0 || len(of) > 0 && list[0].Of != of[0] {
		return rota.BudgetAccount{}
	}
	return list[0]
}

// wantAccount compares an account: what is spent, reserved and left, in units.
func (b *bench) wantAccount(name, of, want string) {
	b.t.Helper()
	a := b.budget(name, of)
	if got := fmt.Sprint(a.Spent, " ", a.Reserved, " ", a.Left); got != want {
		b.t.Fatalf("account %s of %s: spent, reserved, left are %s, want %s", of, name, got, want)
	}
}

func change(id string, amount int64) rota.BudgetChange {
	return rota.BudgetChange{ID: id, Amount: rota.Cost(amount * unit), Reason: "launch"}
}

// slowQueue keeps leases open while a test lets time pass.
func (b *bench) slowQueue() {
	b.t.Helper()
	b.ok(queueOp("default", "lease_ms", "3600000", "ack_timeout_ms", "3600000", "renewals_max", "-1", "ranking", "fifo",
		"attempt_max", "50", "backoff_base", "0"))
}

// TestBudget follows a budget from its first reservation to a grant: starts reserve estimates, ends book what was used.
func TestBudget(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.slowQueue()
	b.ok(usd("month", 10, func(x *rota.Budget) { x.Tenant, x.WarnPermille, x.DefaultCost = "default", 800, unit }))
	b.existed(usd("month", 10, func(x *rota.Budget) { x.Tenant, x.WarnPermille, x.DefaultCost = "default", 800, unit }))
	b.worker("w", 20)
	b.submit("a", costs("usd", 4))
	b.submit("b", costs("usd", 3))
	b.submit("free", func(s *rota.JobSpec) { s.Tenant = "other" })
	b.submit("c", costs("usd", 4))
	l := b.wantStart("a", "b", "free")
	b.wantAccount("month", "", "0 7 3")
	b.whyNames("c", "BUDGET_SPENT", "budget month has 3 of 10 usd left, and open attempts reserve 7; the job may use 4")
	b.submit("d")                                      // counts as 1
	e := b.entry(opsOf(b.View.Decide(1000))...).Events // d
	if countKinds(e, rota.EventJobAssigned) != 1 || countKinds(e, rota.EventBudgetWarned) != 1 {
		t.Errorf("no warning at 8 of 10: %+v", e)
	}
	b.ok(verb(rota.VerbComplete, l["b"], spends("usd", 1)))
	b.wantAccount("month", "", "1 5 4")
	b.wantStart("c") // it fits again
	b.submit("e", costs("usd", 0))
	b.wantStart() // nothing is left, even for nothing
	b.ok(GrantBudgetOp("month", "", change("g1", 1)))
	b.existed(GrantBudgetOp("month", "", change("g1", 1)))
	b.wantStart("e")
	if a := b.budget("month"); a.Limit != 11*unit || a.Granted != unit || len(a.Changes) != 1 || a.Changes[0].Reason != "launch" {
		t.Errorf("%+v", a)
	}
	b.ok(verb(rota.VerbFail, l["a"], spends("usd", 6))) // over its estimate
	b.wantAccount("month", "", "7 5 0")
	b.wantStart()
	b.ok(ResetBudgetOp("month", "", false, change("r1", 0)))
	b.existed(ResetBudgetOp("month", "", false, change("r1", 0)))
	b.wantAccount("month", "", "0 5 5")
	b.wantStart("a")
	b.sound()
	b.ok(DeleteBudgetOp("month"))
	b.existed(DeleteBudgetOp("month"))
	b.submit("f", costs("usd", 1000))
	b.wantStart("f")
	b.sound()
}

// TestBudget_smallerJobsPass: a job that does not fit holds back none that does, whatever its place.
func TestBudget_smallerJobsPass(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.slowQueue()
	b.ok(usd("all", 10))
	b.worker("w", 20)
	for i, amount := range []int{9, 9, 1, 12} {
		b.submit(fmt.Sprint("j", i), costs("usd", amount))
	}
	b.wantStart("j0", "j2")
	b.wantAccount("all", "", "0 10 0")
	b.whyNames("j3", "BUDGET_SPENT", "budget all has too little left; the job may use 12")
	b.sound()
}

// TestBudget_turnsOfKeys: an account that opens again gives the keys of a queue the same turns on a node that restored.
func TestBudget_turnsOfKeys(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		d := rand.New(rand.NewPCG(seed, 306))
		b := newestBench(t)
		b.every = 100
		b.ok(queueOp("default", "fair_share", "off", "lease_ms", "3600000", "ack_timeout_ms", "3600000"))
		b.rule(rota.KeyRule{Name: "k", Queue: "default", Group: true})
		b.ok(usd("all", 20, func(x *rota.Budget) { x.Each = rota.EachTenant }))
		b.worker("w", 40)
		for i := range 60 {
			b.submit(fmt.Sprint("j", d.IntN(1000), "-", i), ofKeys(fmt.Sprint("k:", d.IntN(4))), costs("usd",
				d.IntN(9)))
			if i%7 == 0 {
				b.match()
				b.ok(GrantBudgetOp("all", "default", change(fmt.Sprint("g", i), int64(d.IntN(20)+1))))
				b.twin = b.restored()
			}
			if i%11 == 0 {
				b.ok(ResetBudgetOp("all", "", true, change(fmt.Sprint("r", i), 0)))
			}
			b.match()
		}
		b.sound()
	}
}

// TestBudget_oneRound: classes of an account share what is left within a round.
func TestBudget_oneRound(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.slowQueue()
	b.ok(usd("all", 10))
	b.ok(usd("each", 6, func(x *rota.Budget) { x.Each = rota.EachTenant }))
	b.worker("w", 20)
	for i := range 6 {
		b.submit(fmt.Sprint("j", i), costs("usd", 1+i%3), func(s *rota.JobSpec) {
			s.Tenant = rota.TenantID(fmt.Sprint("t", i%2))
		})
	}
	for b.match(); len(b.match()) > 0; { // match fails if an assignment is dropped
	}
	if a := b.budget("all"); a.Reserved > 10*unit {
		t.Errorf("%+v", a)
	}
	b.sound()
}

// TestBudget_each keeps an account for each tenant, key, workflow and job, and forgets those of what has ended.
func TestBudget_each(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.slowQueue()
	b.ok(usd("tenant", 5, func(x *rota.Budget) { x.Each = rota.EachTenant }))
	b.ok(usd("key", 4, func(x *rota.Budget) { x.Each, x.Key = rota.EachKey, "model" }))
	b.ok(usd("job", 3, func(x *rota.Budget) { x.Each = rota.EachJob }))
	b.worker("w", 20)
	b.submit("a", costs("usd", 2), ofKeys("model:x"))
	b.submit("b", costs("usd", 3), ofKeys("model:x"), func(s *rota.JobSpec) { s.Tenant = "other" })
	b.submit("c", costs("usd", 3), ofKeys("model:y"))
	l := b.wantStart("a", "c")
	b.whyNames("b", "BUDGET_SPENT", "budget key of key model:x has too little left; the job may use 3")
	b.wantAccount("tenant", "default", "0 5 0")
	b.ok(verb(rota.VerbFail, l["a"], spends("usd", 2)))
	b.wantAccount("job", "a", "2 0 1")
	b.whyNames("a", "BUDGET_SPENT", "budget job of job a has 1 of 3 usd left")
	b.refuses(rota.KindConflict, "tenant", &fsmpb.Op{Op: &fsmpb.Op_DeleteTenant{DeleteTenant: &fsmpb.DeleteTenant{Id: "default"}}})
	b.ok(ResetBudgetOp("tenant", "", true, change("r", 0)))
	b.ok(ResetBudgetOp("job", "a", false, change("r", 0)))
	b.ok(verb(rota.VerbComplete, l["c"], spends("usd", 0)))
	b.wantStart("a") // of the same key as b, and first
	b.ok(cancelOp("b"))
	b.sound()
	for _, of := range BudgetAccounts(&b.View, "job", "", 10, false) {
		if of.Of != "a" {
			t.Errorf("account of %s, which has ended", of.Of)
		}
	}
}

// TestBudget_ofWorkflow: the jobs of a workflow share an account, which ends with it.
func TestBudget_ofWorkflow(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.slowQueue()
	b.ok(usd("flow", 5, func(x *rota.Budget) { x.Each = rota.EachWorkflow }))
	b.worker("w", 20)
	b.run(newDAG("f", [][]uint32{nil, nil, {0, 1}}, func(d *dag) {
		for i := range d.Nodes {
			d.Nodes[i].Costs = rota.Costs{"usd": 3 * unit}
		}
	}))
	b.submit("lone", costs("usd", 50)) // of no workflow
	l := b.match()
	if len(l) != 2 || b.budget("flow", "f").Reserved != 3*unit {
		t.Fatalf("started %v, %+v", l, b.budget("flow", "f"))
	}
	for range 3 {
		for id, lease := range l {
			if id != "lone" {
				b.ok(verb(rota.VerbComplete, lease, spends("usd", 1)))
			}
		}
		b.pass(500)
		l = b.match()
	}
	if w, ok := b.View.Workflow("f"); !ok || w.State != rota.WorkflowCompleted {
		t.Fatalf("workflow %+v", w)
	}
	if n := len(BudgetAccounts(&b.View, "flow", "", 10, false)); n != 0 {
		t.Errorf("%d accounts of a workflow that has ended", n)
	}
	b.sound()
}

// TestBudget_thens checks what happens at the limit, except that jobs wait.
func TestBudget_thens(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.slowQueue()
	b.worker("w", 20)
	b.ok(usd("x", 4, func(x *rota.Budget) { x.Then = rota.ThenRefuse }))
	b.submit("a", costs("usd", 3))
	l := b.wantStart("a")
	refused := func(id string, helps bool) {
		t.Helper()
		err := entry.OutcomeError(b.refuses(rota.KindExhausted, "budget", submitOp(jobSpec(id, costs("usd", 2)))))
		if !strings.HasSuffix(err.Text, "; the job may use 2; a grant raises its limit") || (err.RetryAfter > 0) != helps {
			t.Errorf("refused with %+v: does waiting help?", err)
		}
	}
	refused("b", true)
	b.ok(verb(rota.VerbComplete, l["a"], spends("usd", 3)))
	refused("b", false)
	b.ok(usd("x", 4, func(x *rota.Budget) { x.Then = rota.ThenAsk }))
	e := b.entry(submitOp(jobSpec("b", costs("usd", 2)))).Events
	if i := slices.IndexFunc(e, func(e rota.Event) bool { return e.Kind == rota.EventBudgetSpent }); i < 0 || !strings.Contains(e[i].Payload, `"asks":true`) {
		t.Errorf("no question: %+v", e)
	}
	if a := b.budget("x"); !a.Asks || a.Held != 1 || a.Waiting != 1 {
		t.Errorf("%+v", a)
	}
	b.ok(GrantBudgetOp("x", "", change("g", 5)))
	if a := b.budget("x"); a.Asks {
		t.Errorf("answered, and still asks: %+v", a)
	}
	l["b"] = b.wantStart("b")["b"]
	b.ok(usd("x", 4, func(x *rota.Budget) { x.Then = rota.ThenWarn }))
	b.submit("c", costs("usd", 200))
	b.wantStart("c")
	if a := b.budget("x"); !a.Full || a.Left != 0 {
		t.Errorf("%+v", a)
	}
	b.sound()
}

// TestBudget_refusesWorkflow: a workflow is refused as long as one of its nodes does not fit. Its retries and children
// are not refused: they wait.
func TestBudget_refusesWorkflow(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.slowQueue()
	b.worker("w", 20)
	refusing := func(each rota.BudgetEach) func(*rota.Budget) {
		return func(x *rota.Budget) { x.Then, x.Each = rota.ThenRefuse, each }
	}
	b.ok(usd("all", 8, refusing(rota.EachNone)))
	b.ok(usd("flow", 5, refusing(rota.EachWorkflow)))
	costly := func(second int64) func(*dag) {
		return func(d *dag) {
			d.Nodes[0].Costs, d.Nodes[1].Costs = rota.Costs{"usd": 3 * unit}, rota.Costs{"usd": second * unit}
		}
	}
	refused := func(d *dag, text string, helps bool) {
		t.Helper()
		err := entry.OutcomeError(b.refuses(rota.KindExhausted, "budget", d.commit()))
		if !strings.HasPrefix(err.Text, `node 1, "n1": budget `+text) || (err.RetryAfter > 0) != helps {
			t.Errorf("refused with %+v", err)
		}
	}
	big := newDAG("big", [][]uint32{nil, {0}}, costly(6))
	b.upload(big)
	refused(big, "flow of workflow big has 5 of 5 usd left; the job may use 6", false)
	b.ok(usd("flow", 6, refusing(rota.EachWorkflow)))
	b.ok(big.commit())
	b.existed(big.commit())
	l := b.match()
	late := newDAG("late", [][]uint32{nil, {0}}, costly(6), gateAt(0, rota.Gate{}))
	b.upload(late)
	refused(late, "all has too little left; the job may use 6", true)
	child := children("c")
	child.Children[0].Costs = rota.Costs{"usd": 9 * unit}
	b.ok(verb(rota.VerbComplete, l["big/n0"], spends("usd", 4), func(c *peer.LeaseCommand) { c.Growth = child }))
	b.wantStart() // n1 and the child wait
	b.whyNames("big/c", "BUDGET_SPENT", "budget flow of workflow big has 2 of 6 usd left; the job may use 9")
	b.ok(cancelOp("big/c"))
	b.pass(500)
	b.ok(entry.RetryWorkflowOp("big", "", 1))
	b.ok(usd("all", 8))
	b.ok(late.commit())
	b.sound()
}

// wantAsking compares the open questions, as BUDGET/OWNER, however they are listed.
func (b *bench) wantAsking(want ...string) {
	b.t.Helper()
	var got []string
	all := func(*rota.Budget) bool { return true }
	for _, x := range BudgetStates(&b.View, true, all) {
		list := BudgetQuestions(&b.View, x.Name, "", 100, false)
		if int(x.Asking) != len(list) {
			b.t.Fatalf("budget %s has %d open questions, listed are %+v", x.Name, x.Asking, list)
		}
		for i := range list {
			got = append(got, string(x.Name)+"/"+list[i].Of)
			a := b.budget(string(x.Name), list[i].Of)
			if a.Budget == "" { // it opens its row with its next change
				a = list[i]
			}
			if !a.Asks || !reflect.DeepEqual(a, list[i]) {
				b.t.Fatalf("question %+v, account %+v", list[i], a)
			}
			if rest := BudgetQuestions(&b.View, x.Name, list[i].Of, 1, false); len(rest) != 1 || rest[0].Of != list[i].Of {
				b.t.Fatalf("a page from %s on: %+v", list[i].Of, rest)
			}
		}
	}
	if _, n := HeldAccounts(&b.View); !slices.Equal(got, want) || int(n) != len(want) {
		b.t.Fatalf("open questions: %q, counted %d, want %q", got, n, want)
	}
	b.sound()
}

// TestBudget_asking lists the open questions: accounts that ask and have nothing left, or hold jobs back.
func TestBudget_asking(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.slowQueue()
	b.worker("w", 20)
	asks := func(each rota.BudgetEach) func(*rota.Budget) {
		return func(x *rota.Budget) { x.Then, x.Each = rota.ThenAsk, each }
	}
	b.ok(usd("quiet", 1))
	b.ok(usd("a", 5, asks(rota.EachTenant)))
	b.ok(usd("z", 90, asks(rota.EachNone)))
	of := func(tenant rota.TenantID) func(*rota.JobSpec) {
		return func(s *rota.JobSpec) { s.Tenant = tenant }
	}
	b.wantAsking()
	for _, tenant := range []rota.TenantID{"t1", "t2", "t3"} {
		b.submit("big-"+string(tenant), costs("usd", 6), of(tenant))
	}
	b.ok(DeleteBudgetOp("quiet"))
	b.wantAsking("a/t1", "a/t2", "a/t3")
	b.twin = b.restored()
	b.wantAsking("a/t1", "a/t2", "a/t3")
	b.ok(GrantBudgetOp("a", "t2", change("g", 1)))
	b.wantStart("big-t2")
	b.wantAsking("a/t1", "a/t2", "a/t3") // t2 has nothing left, and no job waits
	if list := BudgetQuestions(&b.View, "a", "", 100, true); len(list) != 2 || list[1].Of != "t3" {
		t.Errorf("questions that hold jobs back: %+v", list)
	}
	b.ok(GrantBudgetOp("a", "t2", change("g2", 1)))
	b.ok(cancelOp("big-t3"))
	b.wantAsking("a/t1")
	b.ok(usd("z", 0, asks(rota.EachNone)))
	b.wantAsking("a/t1", "z/")
	b.ok(usd("z", 0))
	b.wantAsking("a/t1")
	b.ok(usd("a", 5, asks(rota.EachJob)))
	b.wantAsking("a/big-t1", "a/big-t2")
	b.ok(DeleteBudgetOp("a"))
	b.wantAsking()
}

// TestBudget_events: a job that does not fit is reported, and again nothing left, each once a period.
func TestBudget_events(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.slowQueue()
	b.worker("w", 20)
	b.ok(usd("x", 4, func(x *rota.Budget) { x.Then = rota.ThenAsk }))
	spent := func(op *fsmpb.Op, want int) {
		t.Helper()
		if e := b.entry(op).Events; countKinds(e, rota.EventBudgetSpent) != want {
			t.Errorf("events %+v, want %d of budgetSpent", e, want)
		}
	}
	spent(submitOp(jobSpec("big", costs("usd", 9))), 1)
	b.ok(cancelOp("big"))
	if a := b.budget("x"); a.Asks || a.Full {
		t.Errorf("it asks, and no job waits: %+v", a)
	}
	spent(submitOp(jobSpec("big2", costs("usd", 9))), 0)
	b.submit("a", costs("usd", 4))
	if e := b.entry(opsOf(b.View.Decide(100))...).Events; countKinds(e, rota.EventBudgetSpent) != 1 {
		t.Errorf("no event with nothing left: %+v", e)
	}
	b.submit("webhook", func(s *rota.JobSpec) { s.Tenant = rota.WebhookTenant })
	b.wantStart("webhook")
	b.sound()
}

// TestBudget_refill: an entry that frees leases and submits jobs decides none that a budget then drops.
func TestBudget_refill(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.slowQueue()
	b.worker("w", 10)
	b.ok(usd("x", 5))
	ops := []*fsmpb.Op{}
	for i := range 10 {
		ops = append(ops, submitOp(jobSpec(fmt.Sprint("j", i), costs("usd", 1))))
	}
	ops = append(ops, opsOf(b.DecideWith(&Arrivals{Ops: ops, Now: b.now}, 100))...)
	if e := b.entry(ops...).Events; countKinds(e, rota.EventAssignmentDropped) != 0 {
		t.Errorf("dropped: %+v", e)
	}
	if n := len(b.match()); n != 5 {
		t.Errorf("%d started", n)
	}
	b.sound()
}

// TestBudget_retried: a retry has an account of its own, also while the attempt of the earlier life goes on.
func TestBudget_retried(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.slowQueue()
	b.worker("w", 5)
	b.ok(usd("job", 9, func(x *rota.Budget) { x.Each = rota.EachJob }))
	b.submit("a", costs("usd", 4))
	l := b.wantStart("a")
	b.ok(verb(rota.VerbAck, l["a"]))
	b.ok(cancelOp("a"))
	b.wantAccount("job", "a", "0 4 5")
	b.ok(retryOp("a"))
	b.ok(verb(rota.VerbDecline, l["a"], spends("usd", 4)))
	b.wantAccount("job", "a", "0 0 0") // it has no row
	b.wantStart("a")
	b.wantAccount("job", "a", "0 4 5")
	b.sound()
}

// TestBudget_conditional: a budget is set and deleted in one version.
func TestBudget_conditional(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.ok(usd("x", 5))
	state, _ := BudgetOf(&b.View, "x")
	op := usd("x", 6)
	op.IfMatch = "0"
	b.refuses(rota.KindConflict, "version", op)
	op.IfMatch = state.ETag
	b.ok(op)
	del := DeleteBudgetOp("x")
	del.IfMatch = state.ETag
	b.refuses(rota.KindConflict, "version", del)
}

// TestBudget_stop interrupts an attempt whose report passes the limit; the attempt does not count.
func TestBudget_stop(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.slowQueue()
	b.ok(usd("x", 5, func(x *rota.Budget) { x.Stop = true }))
	b.worker("w", 20)
	b.submit("a", costs("usd", 2))
	b.submit("b", costs("usd", 2))
	l := b.wantStart("a", "b")
	b.ok(verb(rota.VerbAck, l["a"]))
	b.ok(verb(rota.VerbProgress, l["a"], spends("usd", 3)))
	if a, _ := b.View.Assignment(l["a"].ID); a.Lease.Revoked != rota.ReasonNone {
		t.Fatalf("revoked at the limit: %v", a.Lease.Revoked)
	}
	b.ok(verb(rota.VerbProgress, l["a"], spends("usd", 4)))
	if a, _ := b.View.Assignment(l["a"].ID); a.Lease.Revoked != rota.ReasonBudgetSpent {
		t.Fatalf("not revoked: %v", a.Lease.Revoked)
	}
	b.wantAccount("x", "", "0 6 0")
	b.ok(verb(rota.VerbDecline, l["a"], spends("usd", 4)))
	if j := b.state("a", rota.JobQueued); j.Attempt != 0 {
		t.Errorf("attempt %d", j.Attempt)
	}
	b.wantAccount("x", "", "4 2 0")
	b.wantStart()
	b.sound()
}

// TestBudget_turn: each period begins once; what is open stays reserved, and is booked where it ends.
func TestBudget_turn(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.slowQueue()
	b.ok(usd("x", 5, func(x *rota.Budget) { x.Every, x.TZ = rota.EveryHour, "Europe/Berlin" }))
	b.worker("w", 20)
	due := func() *DueBudget { return &BudgetsWithPeriods(&b.View)[0] }
	date := b.Header.Date()
	first := due()
	b.ok(TurnBudgetOp(first, date-100, date+10_000, ""))
	b.refuses(rota.KindStale, "from", TurnBudgetOp(first, date-100, date+10_000, ""))
	if s, _ := BudgetOf(&b.View, "x"); s.Since != date-100 || s.Until != date+10_000 {
		t.Errorf("%+v", s)
	}
	b.submit("a", costs("usd", 4))
	b.submit("b", costs("usd", 3))
	l := b.wantStart("a")
	b.whyNames("b", "BUDGET_SPENT", "its next period begins at "+(date+10_000).String())
	b.ok(GrantBudgetOp("x", "", change("g", 1)))
	second := due()
	b.refuses(rota.KindInvalid, "since", TurnBudgetOp(second, date+10_000, date+20_000, "")) // not yet
	b.pass(12_000)
	e := b.entry(TurnBudgetOp(second, date+10_000, date+20_000, "")).Events
	if countKinds(e, rota.EventBudgetReset) != 1 {
		t.Errorf("%+v", e)
	}
	b.refuses(rota.KindStale, "from", TurnBudgetOp(second, date+10_000, date+20_000, ""))
	b.refuses(rota.KindInvalid, "since", TurnBudgetOp(due(), date+15_000, date+30_000, ""))
	b.wantAccount("x", "", "0 4 1")
	b.ok(verb(rota.VerbComplete, l["a"], spends("usd", 1)))
	b.wantAccount("x", "", "1 0 4")
	b.wantStart("b")
	third := due()
	b.ok(usd("x", 6, func(x *rota.Budget) { x.Every, x.TZ = rota.EveryDay, "Europe/Berlin" }))
	b.wantAccount("x", "", "1 3 2")
	b.refuses(rota.KindStale, "from", TurnBudgetOp(third, date+10_000, date+900_000, ""))
	b.ok(TurnBudgetOp(due(), date-1000, date+900_000, ""))
	b.wantAccount("x", "", "1 3 2")
	b.sound()
}

// TestBudget_changed: another budget counts the attempts that are open, and files the jobs that wait again.
func TestBudget_changed(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.slowQueue()
	b.worker("w", 20)
	b.submit("a", costs("usd", 4), ofKeys("model:x"))
	l := b.wantStart("a")
	b.submit("b", costs("usd", 4), ofKeys("model:x"))
	b.submit("c", ofKeys("model:y"))
	b.ok(usd("x", 5))
	b.wantAccount("x", "", "0 4 1")
	b.wantStart("c")
	b.ok(usd("x", 5, func(x *rota.Budget) { x.Each, x.Key = rota.EachKey, "model" }))
	b.wantAccount("x", "model:x", "0 4 1")
	b.wantStart()
	b.ok(usd("x", 9, func(x *rota.Budget) { x.Each, x.Key = rota.EachKey, "model" }))
	b.wantStart("b")
	b.ok(usd("x", 9, func(x *rota.Budget) { x.Unit = "eur" }))
	b.wantAccount("x", "", "0 0 9")
	b.ok(verb(rota.VerbComplete, l["a"], spends("usd", 4), spends("eur", 3)))
	b.sound()
}

// TestBudget_outlived: a cancelled job's attempt reserves until its worker has stopped, and is then booked.
func TestBudget_outlived(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.slowQueue()
	b.ok(usd("x", 5))
	b.ok(usd("job", 5, func(x *rota.Budget) { x.Each = rota.EachJob }))
	b.worker("w", 20)
	b.submit("a", costs("usd", 4))
	l := b.wantStart("a")
	b.ok(verb(rota.VerbAck, l["a"]))
	b.ok(cancelOp("a"))
	b.wantAccount("x", "", "0 4 1")
	b.wantAccount("job", "a", "0 4 1")
	b.sound()
	b.ok(verb(rota.VerbDecline, l["a"], spends("usd", 2)))
	b.wantAccount("x", "", "2 0 3")
	b.wantAccount("job", "a", "0 0 0")
	b.sound()
}

// TestBudget_refused checks each refusal, which changes nothing.
func TestBudget_refused(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	for field, f := range map[string]func(*rota.Budget){
		"name": func(x *rota.Budget) { x.Name = "no name" }, "tenant": func(x *rota.Budget) { x.Tenant = "a b" },
		"key": func(x *rota.Budget) { x.Key = "a:" }, "unit": func(x *rota.Budget) { x.Unit = "" },
		"limit": func(x *rota.Budget) { x.Limit = -1 }, "default_cost": func(x *rota.Budget) { x.DefaultCost = rota.MaxCost + 1 },
		"each": func(x *rota.Budget) { x.Each = 9 }, "every": func(x *rota.Budget) { x.Every = 9 },
		"then": func(x *rota.Budget) { x.Then = 9 }, "warn_permille": func(x *rota.Budget) { x.WarnPermille = 1001 },
		"tz": func(x *rota.Budget) { x.TZ = "Europe/Berlin" }, "stop": func(x *rota.Budget) { x.Stop, x.Then = true, rota.ThenWarn },
	} {
		b.refuses(rota.KindInvalid, field, usd("x", 5, f))
	}
	b.refuses(rota.KindInvalid, "key", usd("x", 5, func(x *rota.Budget) { x.Each = rota.EachKey }))
	b.refuses(rota.KindInvalid, "key", usd("x", 5, func(x *rota.Budget) { x.Each, x.Key = rota.EachKey, "a:1" }))
	b.refuses(rota.KindNotFound, "queue", usd("x", 5, func(x *rota.Budget) { x.Queue = "none" }))
	b.refuses(rota.KindNotFound, "budget", GrantBudgetOp("x", "", change("g", 1)))
	b.ok(usd("x", 5))
	b.ok(usd("each", 5, func(x *rota.Budget) { x.Each = rota.EachTenant }))
	b.refuses(rota.KindInvalid, "of", GrantBudgetOp("x", "t", change("g", 1)))
	b.refuses(rota.KindInvalid, "of", GrantBudgetOp("each", "", change("g", 1)))
	b.refuses(rota.KindInvalid, "of", ResetBudgetOp("each", "", false, change("g", 0)))
	b.refuses(rota.KindInvalid, "of", ResetBudgetOp("each", "t", true, change("g", 0)))
	b.refuses(rota.KindInvalid, "of", GrantBudgetOp("each", strings.Repeat("x", 200), change("g", 1)))
	b.ok(usd("key", 5, func(x *rota.Budget) { x.Each, x.Key = rota.EachKey, "k" }))
	b.refuses(rota.KindInvalid, "of", GrantBudgetOp("key", "other:1", change("g", 1)))
	b.refuses(rota.KindInvalid, "of", GrantBudgetOp("key", "k:\x01", change("g", 1)))
	b.ok(usd("jobs", 5, func(x *rota.Budget) { x.Each = rota.EachJob }))
	b.refuses(rota.KindInvalid, "of", GrantBudgetOp("jobs", "gone", change("g", 1)))
	b.ok(usd("flows", 5, func(x *rota.Budget) { x.Each = rota.EachWorkflow }))
	b.refuses(rota.KindInvalid, "of", GrantBudgetOp("flows", "gone", change("g", 1)))
	b.ok(usd("mine", 5, func(x *rota.Budget) { x.Each, x.Tenant = rota.EachTenant, "t" }))
	b.refuses(rota.KindInvalid, "of", GrantBudgetOp("mine", "victim", change("g", 1)))
	b.ok(GrantBudgetOp("mine", "t", change("g", 1)))
	b.refuses(rota.KindConflict, "id", GrantBudgetOp("mine", "t", change("g", 2)))
	for _, amount := range []int64{0, -1, rota.MaxCost/unit - 4} {
		b.refuses(rota.KindInvalid, "amount", GrantBudgetOp("x", "", change("g", amount)))
	}
	b.refuses(rota.KindInvalid, "id", GrantBudgetOp("x", "", change("", 1)))
	b.refuses(rota.KindInvalid, "reason", GrantBudgetOp("x", "", rota.BudgetChange{ID: "g", Amount: 1, Reason: strings.Repeat("x", 300)}))
	for i := range 4 { // x, each, jobs and flows are there
		b.ok(usd(fmt.Sprint("more", i), 5))
	}
	b.refuses(rota.KindExhausted, "budget", usd("more4", 5))
	b.ok(usd("other", 5, func(x *rota.Budget) { x.Tenant = "t" }))
	old := newBench(t)
	old.refuses(rota.KindConflict, "rules_version", usd("x", 5))
	old.refuses(rota.KindConflict, "rules_version", roleOp("r", rota.Grant{Right: rota.RightGrant, Tenant: "*", Queue: "*"}))
}

// TestBudget_bigAmounts: sums beyond 64 bits stay exact.
func TestBudget_bigAmounts(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.slowQueue()
	b.ok(usd("x", rota.MaxCost/unit, func(x *rota.Budget) { x.Then = rota.ThenWarn }))
	b.worker("w", 20)
	var ids []string
	for i := range 15 {
		ids = append(ids, fmt.Sprintf("j%02d", i))
		b.submit(ids[i], costs("usd", int(rota.MaxCost/unit)))
	}
	l := b.wantStart(ids...)
	b.sound()
	for _, id := range ids[1:] {
		b.ok(verb(rota.VerbComplete, l[rota.JobID(id)], spends("usd", 0)))
	}
	b.wantAccount("x", "", fmt.Sprint("0 ", rota.MaxCost/unit, " 0"))
	b.sound()
}

// TestBudget_model compares random lives of budgets with sums over all attempts, and checks after each round that no
// start passed a limit, and that nothing waits that could start.
func TestBudget_model(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		budgetLife(t, seed)
	}
}

// budgetAttempt is an attempt of the model: what it counts as, and what it ended with.
type budgetAttempt struct {
	job      string
	tenant   rota.TenantID
	estimate int64
	charge   int64
	open     bool
	// base is the number of turns and resets when it ended.
	base int
}

func budgetLife(t *testing.T, seed uint64) {
	d := rand.New(rand.NewPCG(seed, 305))
	b := newestBench(t)
	b.every = 7
	b.slowQueue()
	b.worker("w", 1000)
	limit, each := 5+d.Int64N(30), d.IntN(2) == 0
	b.ok(usd("x", limit, func(x *rota.Budget) {
		x.DefaultCost, x.Every = unit, rota.EveryHour
		if each {
			x.Each = rota.EachTenant
		}
	}))
	attempts, grants, base := map[rota.LeaseID]*budgetAttempt{}, map[string]int64{}, 0
	var open []rota.Lease
	of := func(tenant rota.TenantID) string {
		if each {
			return string(tenant)
		}
		return ""
	}
	used := func(account string) (spent, reserved int64) {
		for _, a := range attempts {
			switch {
			case of(a.tenant) != account:
			case a.open:
				reserved += a.charge
			case a.base == base:
				spent += a.charge
			}
		}
		return spent, reserved
	}
	estimate := func(s *rota.JobSpec) int64 {
		if c, ok := s.Costs["usd"]; ok {
			return c
		}
		return unit
	}
	for step := range 120 {
		switch k := d.IntN(10); {
		case k < 3:
			b.submit(fmt.Sprint("j", step), func(s *rota.JobSpec) {
				s.Tenant = rota.TenantID(fmt.Sprint("t", d.IntN(2)))
				if d.IntN(3) > 0 {
					s.Costs = rota.Costs{"usd": d.Int64N(9 * unit)}
				}
			})
		case k < 5 && len(open) > 0:
			at := d.IntN(len(open))
			a := attempts[open[at].ID]
			report := a.charge + d.Int64N(unit)
			b.ok(verb(rota.VerbProgress, open[at], func(c *peer.LeaseCommand) { c.Costs = rota.Costs{"usd": report} }))
			a.charge = max(a.estimate, report)
		case k < 8 && len(open) > 0:
			at := d.IntN(len(open))
			l := open[at]
			open = slices.Delete(open, at, at+1)
			a := attempts[l.ID]
			a.open, a.base = false, base
			how := []rota.LeaseVerb{rota.VerbComplete, rota.VerbFail, rota.VerbDecline}[d.IntN(3)]
			row := b.leasing.leases.Get(string(l.ID[:]))
			reported, has := row.Spent["usd"]
			switch {
			case d.IntN(2) == 0:
				report := reported + d.Int64N(8*unit)
				a.charge = report
				b.ok(verb(how, l, func(c *peer.LeaseCommand) { c.Costs = rota.Costs{"usd": report} }))
			default:
				if a.charge = a.estimate; has {
					a.charge = reported
				} else if how == rota.VerbDecline && row.Acked.IsZero() {
					a.charge = 0
				}
				b.ok(verb(how, l))
			}
		case k == 8:
			account := of(rota.TenantID(fmt.Sprint("t", d.IntN(2))))
			b.ok(GrantBudgetOp("x", account, change(fmt.Sprint("g", step), 1)))
			grants[account] += unit
		case step%3 == 0:
			base, grants = base+1, map[string]int64{}
			if d.IntN(2) == 0 {
				b.ok(ResetBudgetOp("x", "", true, change(fmt.Sprint("r", step), 0)))
			} else {
				due := &BudgetsWithPeriods(&b.View)[0]
				if due.Until == 0 {
					b.ok(TurnBudgetOp(due, b.Header.Date(), b.Header.Date()+1, ""))
					b.pass(250)
					due = &BudgetsWithPeriods(&b.View)[0]
				}
				b.pass(250)
				b.ok(TurnBudgetOp(due, b.Header.Date(), b.Header.Date()+1, ""))
			}
		}
		for {
			leases := inOrder(b.match())
			if len(leases) == 0 {
				break
			}
			for _, l := range leases {
				s := &b.JobTable.Get(l.Job).Spec.JobSpec
				e := estimate(s)
				attempts[l.ID] = &budgetAttempt{string(l.Job), s.Tenant, e, e, true, 0}
				open = append(open, l)
			}
			for _, account := range []string{"", "t0", "t1"} {
				if spent, reserved := used(account); spent+reserved > limit*unit+grants[account] {
					newest := int64(0)
					for _, l := range leases {
						if a := attempts[l.ID]; of(a.tenant) == account {
							newest += a.estimate
						}
					}
					if newest > 0 {
						t.Fatalf("seed %d, step %d: account %q started jobs beyond its limit: %d and %d of %d", seed, step,
							account, spent, reserved, limit*unit+grants[account])
					}
				}
			}
		}
		b.compareBudget(seed, step, limit, used, grants, of, estimate)
	}
	b.sound()
}

// compareBudget compares accounts with the model, and finds jobs that wait although they could start.
func (b *bench) compareBudget(seed uint64, step int, limit int64, used func(string) (int64, int64),
	grants map[string]int64, of func(rota.TenantID) string, estimate func(*rota.JobSpec) int64) {
	b.t.Helper()
	b.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		if j.State != rota.JobQueued {
			return true
		}
		spent, reserved := used(of(j.Spec.Tenant))
		if left := limit*unit + grants[of(j.Spec.Tenant)] - spent - reserved; left > 0 && left >= estimate(&j.Spec.JobSpec) {
			b.t.Fatalf("seed %d, step %d: job %s waits with %d left", seed, step, id, left)
		}
		return true
	})
	for _, account := range []string{"", "t0", "t1"} {
		spent, reserved := used(account)
		if a := b.account("x", account); int64(budgets.Shown(a.Spent)) != spent ||
			int64(budgets.Shown(a.Reserved)) != reserved || a.Granted != grants[account] {
			b.t.Fatalf("seed %d, step %d: account %q has %+v, the model %d and %d, granted %d", seed, step, account, a,
				spent, reserved, grants[account])
		}
	}
}

func (b *bench) account(name rota.BudgetName, of string) state.Account {
	return b.budgets.Account(state.AccountKey(name, of))
}

// TestBudget_ofWorkflows_inOrder sets budgets against the order of their names: the end of a workflow emits their events
// in the order that a restored node has.
func TestBudget_ofWorkflows_inOrder(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	for _, name := range []string{"z", "a", "m"} {
		b.ok(usd(name, 5, func(x *rota.Budget) { x.Each = rota.EachWorkflow }))
	}
	want := []rota.BudgetName{"a", "m", "z"}
	if mine, its := b.budgets.OfFlows, b.restored().budgets.OfFlows; !slices.Equal(mine, want) || !slices.Equal(its,
		want) {
		t.Errorf("%v, restored %v, want %v", mine, its, want)
	}
}

// TestBudget_accountWithoutBudget: a state with an account whose budget is missing is refused, also if its digest fits.
func TestBudget_accountWithoutBudget(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.slowQueue()
	b.worker("w", 20)
	b.ok(usd("x", 4))
	b.submit("a", costs("usd", 3))
	b.wantStart("a")
	f := b.Freeze()
	l, err := NewLoader(f.Info())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Records(func(kind byte, rec []byte) error {
		if kind == state.TagBudget {
			return nil
		}
		return l.Add(kind, rec)
	}); err != nil {
		t.Fatal(err)
	}
	ledger := l.m.Ledger
	ledger.Add(state.HashRow(&ledger.Enc, state.TagHeader, &l.m.Header))
	l.want.Digest = ledger.Sum
	if _, err := l.Finish(); err == nil || !strings.Contains(err.Error(), "I12") {
		t.Errorf("got %v, want a fault of I12", err)
	}
}
