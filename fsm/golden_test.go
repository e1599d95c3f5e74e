package fsm

import (
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

var update = flag.Bool("update", false, "write the golden files anew")

// goldenV1 is the log of rules version 1, which is frozen, and goldenNew that of the newest, which is rewritten until a
// release freezes it. Each is two files: .bin and .txt.
const (
	goldenV1  = "../test/upgrade/testdata/v0.1.0/log"
	goldenNew = "testdata/rules2"
)

// goldenEvery is the number of entries between recorded digests.
const goldenEvery = 25

// TestGolden replays logs. A different digest means that this binary understands an old log differently: the change
// belongs under a newer rules version (SPEC §16.0). A log is a sequence of (length of the entry, 4 bytes; term of the
// log, 8 bytes; the sealed entry), big-endian.
func TestGolden(t *testing.T) {
	t.Parallel()
	if *update {
		writeGolden(t)
	}
	for version, name := range map[uint32]string{1: goldenV1, entry.RulesVersion: goldenNew} {
		t.Run(fmt.Sprint("rules ", version), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(name + ".bin")
			if err != nil {
				t.Fatal(err)
			}
			digests, err := os.ReadFile(name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			b := emptyBench(t)
			b.every = 10
			var got strings.Builder
			for index := 1; len(data) > 0; index++ {
				n := int(binary.BigEndian.Uint32(data))
				term := binary.BigEndian.Uint64(data[4:])
				a := b.apply(data[12:12+n], term)
				data = data[12+n:]
				if index%goldenEvery == 0 || len(data) == 0 {
					fmt.Fprintf(&got, "%d %s clock %d events %d\n", index, a.Digest, a.Clock, len(a.Events))
				}
			}
			b.sound()
			if got.String() != string(digests) {
				t.Errorf("the log's meaning differs from %s.txt:\n%s\nwant\n%s", name, got.String(), digests)
			}
			if rules := b.View.Head().Rules; rules != version {
				t.Errorf("rules version %d is in force at its end", rules)
			}
		})
	}
}

// goldenFlows runs workflows to all their ends, one of them twice.
func goldenFlows(c *bench) {
	for _, d := range []*dag{diamond("g1"), diamond("g2", continuing), diamond("g3"), diamond("g4", continuing)} {
		c.run(d)
	}
	c.upload(diamond("g5"))
	c.worker("g", 10)
	c.ok(cancelOp("g2/n2"))
	for i := range 8 {
		for n, l := range inOrder(c.match()) {
			v := rota.VerbComplete
			if n == i {
				v = rota.VerbFail
			}
			c.entry(verb(v, l, func(c *peer.LeaseCommand) { c.Fail, c.After = failAs(i); c.Log = []byte("log") }))
		}
		switch i {
		case 1:
			c.entry(entry.CancelWorkflowOp("g4"))
		case 3:
			c.entry(entry.RetryWorkflowOp("g4", "n1", 1), entry.RetryWorkflowOp("g2", "", 1))
		}
		c.pass(2_000)
	}
	gates := newDAG("g6", make([][]uint32, 4), continuing, gateAt(0, rota.Gate{}), gateAt(1, rota.Gate{}),
		gateAt(2, rota.Gate{Timeout: time.Second}),
		gateAt(3, rota.Gate{Timeout: time.Second, OnTimeout: rota.GateCompletes}))
	c.run(gates)
	c.entry(gates.signal("n0", "s", "yes"), gates.refuse("n1", "s", "no"), gates.signal("n0", "late", ""))
	c.pass(2_000)
	grows := newDAG("g7", [][]uint32{nil, {0}}, continuing)
	c.run(grows)
	op := c.completion(grows, "n0", children("a", "b", "c<a"))
	c.entry(op, op)
	c.entry(c.completion(grows, "a", detached(children("d"))), c.completion(grows, "b", children("e", "bad<x")))
	c.match()
	c.ends(rota.VerbFail, grows, "c")
	c.pass(2_000)
}

// goldenWith gives a job its worker by a round of its own entry.
func goldenWith(c *bench) {
	d := emptyBench(c.t)
	d.lead()
	d.ok(switchOp(entry.RulesVersion))
	d.worker("with", 2)
	ops := []*fsmpb.Op{submitOp(jobSpec("with"))}
	rounds := d.DecideWith(arrivalsOf(d, ops), 1000)
	if len(rounds) != 1 {
		c.t.Fatalf("%v is decided with %v", rounds, ops)
	}
	// On this state, with pending jobs, none is decided: a round from another leader is checked, and dropped.
	rounds[0].Epoch, rounds[0].Height = c.Header.Epoch+1, uint64(c.Header.Index)
	c.entry(slices.Concat(ops, opsOf(rounds))...)
}

// goldenOutlived cancels leased jobs, with keys and unique ones, whose workers confirm or not, and whose retries and
// successors wait.
func goldenOutlived(c *bench) {
	c.worker("outlived", 20)
	rule := rota.KeyRule{Name: "outlived", Concurrency: 1}
	c.entry(SetKeyRuleOp(&rule))
	var ops []*fsmpb.Op
	for i := range 4 {
		ops = append(ops, submitOp(jobSpec(fmt.Sprint("outlived", i), func(s *rota.JobSpec) {
			s.Worker, s.Keys, s.Unique = "outlived", []string{fmt.Sprint("outlived:",
				i)}, &rota.Unique{Key: fmt.Sprint("outlived", i)}
		})))
	}
	c.entry(ops...)
	leases := inOrder(c.match())
	ops = nil
	for i := range 4 {
		id := fmt.Sprint("outlived", i)
		ops = append(ops, cancelOp(id), retryOp(id), cancelOp(id), submitOp(jobSpec(id+"b", func(s *rota.JobSpec) {
			s.Worker, s.Keys, s.Unique = "outlived", []string{fmt.Sprint("outlived:",
				i)}, &rota.Unique{Key: fmt.Sprint("outlived", i)}
		})))
	}
	for _, op := range ops { // a retry depends on the state at that point
		c.entry(op)
	}
	for i, l := range leases {
		if i%2 == 0 {
			c.entry(verb([]rota.LeaseVerb{rota.VerbDecline, rota.VerbComplete, rota.VerbRenew}[i/2%3], l))
		}
	}
	c.match()
	c.pass(60_000)
	c.entry(DeleteKeyRuleOp("", "outlived", ""))
}

// goldenLosses loses workers under jobs until those run alone, interrupts one and cancels it, and queues one before its
// time.
func goldenLosses(c *bench) {
	c.entry(queueOp("lossy", "backoff_base_ms", "100", "backoff_cap_ms", "1000"))
	lossy := func(s *rota.JobSpec) { s.Queue = "lossy" }
	c.entry(submitOp(jobSpec("lossy0", lossy)), submitOp(jobSpec("lossy1", lossy)))
	for n := range 4 {
		id := fmt.Sprint("lossy", n)
		session := c.worker(id, 4, func(w *rota.WorkerSpec) { w.Queues = []rota.QueueName{"lossy"} })
		for _, l := range inOrder(c.match()) {
			if l.Worker != rota.WorkerID(id) {
				continue
			}
			c.entry(verb(rota.VerbAck, l))
			if n < 2 {
				continue
			}
			c.entry(InterruptOp(&c.View, l.Job, n == 2))
			if n == 3 {
				c.entry(cancelOp(string(l.Job)))
			}
		}
		c.entry(goneOp(id, session, id))
		c.entry(RunNowOp(&c.View, "lossy0"))
		c.pass(2_000)
	}
}

// goldenCosts weighs jobs: with reports that are more, less, missing and refused, a node of a workflow and a job among
// them that run again, and rules that take over debts.
func goldenCosts(c *bench) {
	c.worker("costs", 20)
	rule := rota.KeyRule{Name: "costs", Rate: 2, PeriodMs: 1_000, Burst: 20, Unit: "u", DefaultCost: rota.CostUnit / 2}
	c.entry(SetKeyRuleOp(&rule))
	pinned := func(s *rota.JobSpec) { s.Worker, s.Keys = "costs", []string{"costs:1"} }
	for i := range 6 {
		c.submit(fmt.Sprint("costs", i), pinned, func(s *rota.JobSpec) {
			if i > 0 {
				s.Costs = rota.Costs{"u": int64(i) * 3 * rota.CostUnit, "w": 1}
			}
		})
	}
	c.run(newDAG("costs", [][]uint32{nil}, func(d *dag) { pinned(&d.Nodes[0].JobSpec) }))
	for round := range 8 {
		for i, l := range inOrder(c.match()) {
			c.entry(verb(rota.VerbProgress, l, spends("u", i+round)), verb(rota.VerbProgress, l, spends("u", 50)),
				verb(rota.VerbProgress, l, spends("u", 1)))
			c.entry(verb([]rota.LeaseVerb{rota.VerbFail, rota.VerbComplete, rota.VerbDecline}[(i+round)%3], l,
				spends("u", 50+i, "v", 2)))
		}
		switch round {
		case 2:
			rule.PeriodMs = 700
			c.entry(SetKeyRuleOp(&rule))
		case 4:
			other := rule
			other.Value, other.PeriodMs = "1", 900
			c.entry(SetKeyRuleOp(&other))
		case 5:
			c.entry(cancelOp("costs5"), retryOp("costs5"), entry.CancelWorkflowOp("costs"))
			c.entry(entry.RetryWorkflowOp("costs", "", 1))
		case 6:
			c.entry(DeleteKeyRuleOp("", "costs", "1"))
		}
		c.pass(9_000)
	}
}

// goldenStops pauses keys, by calls and by handlers, and opens breakers that close, open again and are resumed.
func goldenStops(c *bench) {
	c.worker("stops", 20)
	rule := rota.KeyRule{Name: "stops", Breaker: rota.KeyBreaker{Trip: 2, Of: 4, OpenMs: 2_000}, RefuseFull: true}
	c.entry(SetKeyRuleOp(&rule))
	pinned := func(s *rota.JobSpec) { s.Worker, s.Keys = "stops", []string{"stops:1"} }
	for i := range 6 {
		c.entry(submitOp(jobSpec(fmt.Sprint("stops", i), pinned)))
	}
	for round := range 8 {
		for i, l := range inOrder(c.match()) {
			v := []rota.LeaseVerb{rota.VerbFail, rota.VerbFail, rota.VerbComplete, rota.VerbDecline}[(i+round)%4]
			c.entry(verb(v, l, func(o *peer.LeaseCommand) {
				if v == rota.VerbFail && (i+round)%3 == 0 {
					o.Fail, o.After, o.PauseKey = peer.FailSnooze, 3*time.Second, "stops:1"
				}
			}))
		}
		c.entry(submitOp(jobSpec(fmt.Sprint("stops-", round), pinned)))
		switch round {
		case 1, 4:
			c.entry(PauseKeyOp("", "default", "stops:1", c.Header.Date()+rota.Date(round)*1_500, "golden"))
		case 3:
			c.entry(PauseKeyOp("", "default", "stops:2", 0, ""))
		case 6:
			c.entry(ResumeKeyOp("", "default", "stops:1"))
		}
		c.pass(2_500)
	}
}

// goldenBudgets spends budgets of all kinds over periods, grants and resets.
func goldenBudgets(c *bench) {
	c.worker("budgets", 20)
	of := func(each rota.BudgetEach, then rota.BudgetThen) func(*rota.Budget) {
		return func(b *rota.Budget) {
			b.Each, b.Then, b.Every, b.TZ = each, then, rota.EveryDay, "Europe/Berlin"
			b.WarnPermille, b.DefaultCost = 500, unit/3
			if each == rota.EachKey {
				b.Key = "budgets"
			} else {
				b.Tenant = "budgets"
			}
		}
	}
	c.entry(usd("g-all", 30, of(rota.EachNone, rota.ThenHold)), usd("g-tenant", 25, of(rota.EachTenant, rota.ThenRefuse)))
	c.entry(usd("g-key", 9, of(rota.EachKey, rota.ThenAsk)), usd("g-job", 6, of(rota.EachJob, rota.ThenHold)),
		usd("g-flow", 4, of(rota.EachWorkflow, rota.ThenWarn)))
	pinned := func(s *rota.JobSpec) {
		s.Worker, s.Tenant, s.Keys = "budgets", "budgets", []string{"budgets:" + string('a'+s.ID[len(s.ID)-1]%2)}
		s.Costs = rota.Costs{"usd": int64(1+s.ID[len(s.ID)-1]%5) * unit}
	}
	c.run(newDAG("budgets", [][]uint32{nil, {0}}, func(d *dag) {
		d.Tenant = "budgets"
		for i := range d.Nodes {
			d.Nodes[i].Worker, d.Nodes[i].Costs = "budgets", rota.Costs{"usd": 3 * unit}
		}
	}))
	for i := range 9 {
		c.entry(submitOp(jobSpec(fmt.Sprint("budgets", i), pinned)))
	}
	for round := range 8 {
		for i, l := range inOrder(c.match()) {
			c.entry(verb(rota.VerbProgress, l, spends("usd", i+round)))
			c.entry(verb([]rota.LeaseVerb{rota.VerbFail, rota.VerbComplete, rota.VerbDecline}[(i+round)%3], l))
		}
		switch round {
		case 1:
			c.entry(GrantBudgetOp("g-key", "budgets:a", change("g1", 3)), cancelOp("budgets4"))
		case 3:
			for _, due := range BudgetsWithPeriods(&c.View) {
				c.entry(TurnBudgetOp(&due, c.Header.Date()-5, c.Header.Date()+3_000, ""))
			}
		case 5:
			for _, due := range BudgetsWithPeriods(&c.View) {
				c.entry(TurnBudgetOp(&due, due.Until, c.Header.Date()+90_000, ""))
			}
		case 6:
			c.entry(ResetBudgetOp("g-tenant", "", true, change("r1", 0)), usd("g-all", 60))
		}
		c.entry(submitOp(jobSpec(fmt.Sprint("budgets-", round), pinned)))
		c.pass(4_000)
	}
	c.entry(DeleteBudgetOp("g-job"))
}

// goldenDeletions ends jobs, and deletes them so that ranges of numbers begin, meet and disappear.
func goldenDeletions(c *bench) {
	var ops []*fsmpb.Op
	for i := range 4 {
		id := fmt.Sprint("deleted", i)
		ops = append(ops, submitOp(jobSpec(id)), cancelOp(id))
	}
	c.entry(ops...)
	first, third := c.deleteOf("deleted0"), c.deleteOf("deleted2")
	c.entry(first, third, first, DeleteJobOp("deleted1", 0))
	c.entry(c.deleteOf("deleted1"), &fsmpb.Op{Op: &fsmpb.Op_DropDeleted{DropDeleted: &fsmpb.DropDeleted{Through: 1}}})
}

// goldenPlans brings plans of each verb to their ends.
func goldenPlans(c *bench) {
	c.ok(queueOp("planned"))
	for i := range 3 {
		c.submit(fmt.Sprint("bulk", i))
	}
	for _, op := range []*fsmpb.Op{planOp("up", rota.PlanReprioritise, "id=bulk*", urgency(2)),
		planOp("move", rota.PlanMove, "id=bulk*", toQueue("planned")),
		planOp("end", rota.PlanCancel, "queue=planned"), planOp("again", rota.PlanRetry, "id=bulk*", most(2)),
		planOp("forget", rota.PlanDelete, "id=bulk*")} {
		c.ok(op)
		c.runPlan(op.GetStartPlan().GetId(), 2)
	}
	c.ok(planOp("stays", rota.PlanCancel, "type=nothing"))
	c.ok(endPlanOp("up"))
}

// goldenUniques makes jobs hold keys, lose them and be merged.
func goldenUniques(c *bench) {
	kept := rota.Unique{By: []string{rota.UniqueByType, rota.UniqueByArgs}, Period: time.Hour,
		OnConflict: rota.UniqueExtend, Scope: []string{rota.UniquePending, rota.UniqueCompleted}, Keep: time.Minute}
	delayed := func(s *rota.JobSpec) { s.Delay = time.Second }
	c.entry(onlyOne("unique1", rota.Unique{}), onlyOne("unique2", rota.Unique{}),
		onlyOne("unique3", rota.Unique{OnConflict: rota.UniqueReplace}, paying("3")),
		onlyOne("unique4", kept, delayed), onlyOne("unique5", kept, delayed), onlyOne("unique5", kept, delayed))
	c.pass(2_000)
	for _, l := range inOrder(c.match()) {
		c.entry(verb(rota.VerbComplete, l))
	}
	c.entry(onlyOne("unique6", kept, delayed), cancelOp("unique1"), retryOp("unique1"))
	after, collect := rota.Unique{Key: "after", OnConflict: rota.UniqueAfter}, rota.Unique{Key: "collect",
		OnConflict: rota.UniqueCollect}
	c.entry(onlyOne("after1", after), onlyOne("after2", after, typed("other")),
		onlyOne("after3", after, paying("3"), typed("other")),
		onlyOne("collect1", collect, delayed, paying("1")), onlyOne("collect2", collect, paying("2")),
		onlyOne("collect3", collect, paying("{")))
	c.entry(cancelOp("after1"), onlyOne("collect4", collect, typed("other"), paying("4")), cancelOp("collect4"))
}

// goldenBatches opens, fills, seals and ends batches, and retries one after that.
func goldenBatches(c *bench) {
	c.entry(batchOp("g1", 2), batchOp("g2", 0), batchOp("g3", 0), batchOp("g1", 3), entry.SealOp("g3"),
		entry.SealOp("none"))
	c.entry(submitOp(member("gb1", "g1")), submitOp(member("gb2", "g1")), submitOp(member("gb3", "g1")),
		submitOp(member("gb4", "g2")), submitOp(member("gb5", "none")))
	c.entry(cancelOp("gb1"), cancelOp("gb2"), retryOp("gb1"))
	c.entry(cancelOp("gb1"), entry.SealOp("g2"))
}

// goldenHeaders creates jobs, a node, a run and a callback with headers.
func goldenHeaders(c *bench) {
	headed := func(s *rota.JobSpec) { s.Headers = map[string]string{"traceparent": "00-1", "baggage": ""} }
	c.submit("headed", headed)
	c.entry(submitOp(jobSpec("headed")), scheduleOp("headed", func(s *rota.ScheduleSpec) { headed(&s.Job) }),
		triggerOp("headed", "x"), batchOp("headed", 0, headed), entry.SealOp("headed"))
	c.run(newDAG("headed", [][]uint32{nil}, func(d *dag) { headed(&d.Nodes[0].JobSpec) }))
	c.entry(cancelOp("headed"), retryOp("headed"))
}

// goldenBackfill makes jobs wait by their estimates, pass the first, and be estimated again.
func goldenBackfill(c *bench) {
	c.ok(queueOp("batch", "ranking", "shortest", "backfill", "easy", "estimate", "user", "fair_share", "off"))
	c.worker("batch", 8, cpuWorker(4000), func(w *rota.WorkerSpec) { w.Queues = []rota.QueueName{"batch"} })
	batch := func(milli int64, expected time.Duration) func(*rota.JobSpec) {
		return func(s *rota.JobSpec) { s.Queue, s.CPUMilli, s.Expected = "batch", milli, expected }
	}
	c.submit("batch1", batch(3000, time.Minute))
	c.match()
	for i, expected := range []time.Duration{time.Second, time.Hour, time.Minute, 2 * time.Second} {
		c.submit(fmt.Sprint("batch", 2+i), batch(int64(4000>>min(2*i, 2)), expected))
	}
	for range 2 {
		for _, l := range inOrder(c.match()) {
			c.entry(verb(rota.VerbComplete, l))
		}
		c.ok(queueOp("batch", "estimate", "type", "expected.work", "3s", "shortest_aging", "2"))
	}
	for _, by := range []string{"last2", "ema", "quantile"} {
		c.ok(queueOp("batch", "ranking", "smallest", "estimate", by))
		for i := range 4 {
			c.submit(fmt.Sprint("batch", by, i), batch(int64(1000+i*1000), time.Minute))
		}
		for range 2 {
			leases := inOrder(c.match())
			c.pass(5_000)
			for _, l := range leases {
				c.entry(verb(rota.VerbComplete, l))
			}
		}
	}
}

// goldenChoices assigns by ids instead of seeds, renews beyond now + lease_ms, and changes deadlines for the start.
func goldenChoices(c *bench) {
	c.ok(queueOp("chosen", "strategy", "random", "unseeded", "on", "renewals_max", "3", "renew_adds", "on",
		"batch_size", "2000"))
	served := func(w *rota.WorkerSpec) { w.Queues = []rota.QueueName{"chosen"} }
	c.worker("chosen1", 2, served)
	c.worker("chosen2", 2, served)
	for i := range 8 {
		c.submit(fmt.Sprint("chosen", i), func(s *rota.JobSpec) { s.Queue = "chosen" })
	}
	c.ok(c.changeOf(rota.JobChange{ID: "chosen7", StartBy: to(2 * time.Second)}))
	for _, l := range inOrder(c.match()) {
		c.ok(verb(rota.VerbRenew, l, ordinal(1)))
	}
	c.ok(queueOp("chosen", "strategy", "least_loaded"))
	c.pass(3_000)
	c.match()
}

// goldenSchedules sets, fires, pauses, backfills and deletes schedules.
func goldenSchedules(c *bench) {
	c.entry(scheduleOp("gs1", func(s *rota.ScheduleSpec) { s.Overlap, s.PauseOnFailure = rota.OverlapQueueAll, true }),
		scheduleOp("gs2", func(s *rota.ScheduleSpec) {
			s.Overlap, s.Jitter, s.Limit = rota.OverlapCancel, time.Second, 3
		}), scheduleOp("gs3"))
	date := c.Header.Date()
	for _, name := range []string{"gs1", "gs2"} {
		c.entry(backfillOp(name, 1, rota.OverlapQueueAll, date-3*aMinute, date-2*aMinute), triggerOp(name, "x"),
			backfillOp(name, 9, rota.OverlapSkip))
	}
	c.pass(2_000)
	c.entry(c.fireOp("gs1", c.Header.Date()), c.fireOp("gs2", c.Header.Date()), c.fireOp("gs2", c.Header.Date()),
		cancelOp("gs1@+x"), pauseOp("gs2", true, false))
	c.entry(pauseOp("gs2", false, true), unscheduleOp("gs3"), unscheduleOp("gs3"))
}

// goldenRights grants rights, uses them, revokes them, and lets them expire.
func goldenRights(c *bench) {
	wish, brief := tokenWish("a", "acme", access.RoleReader), tokenWish("b", "acme")
	wish.Tenants, wish.WorkerPrefix, wish.ExpiresMs = []string{"acme*"}, "w", int64(c.Header.Date())+1e6
	brief.ExpiresMs = int64(c.Header.Date()) + 5_000
	mine := jobSpec("tokened")
	mine.Tenant = "acme-1"
	c.entry(limitedOp("acme", func(r *fsmpb.SetRole) { r.MaxWorkflows = 3 },
		rota.Grant{Right: rota.RightSubmit, Tenant: "a*", Queue: "*"}), by(rota.Local, tokenOp(wish)), tokenOp(brief),
		blockOp("acme", "eve", true), blockOp("acme", "bob", true), anonymousOp(access.RoleReader))
	c.entry(by(actorNamed("a"), submitOp(mine)), by(actorNamed("a"), submitOp(jobSpec("denied"))),
		by(rota.Anonymous, cancelOp("tokened")),
		by(rota.CertPrincipal("acme", "eve"), submitOp(mine)), by(rota.CertPrincipal("acme", "ann"), submitOp(mine)))
	eve := func(op *fsmpb.Op) *fsmpb.Op { return by(rota.CertPrincipal(access.RoleWorker, "eve"), op) }
	c.entry(eve(registerOp("owned", 2, "s", false)), eve(registerOp("g", 2, "s", true)),
		by(rota.Anonymous, registerOp("owned", 2, "s", true)))
	c.entry(roundOps(c)...)
	c.entry(blockOp(access.RoleWorker, "eve", true), eve(statusOp("owned", rota.WorkerDraining,
		c.fleet.workers.Get("owned").Session)))
	c.entry(issuerOp(idp, mapTo("sub", "ann", access.RoleReader)),
		issuerOp(idp+"/gone", mapTo("repo", "acme/*", "acme")), c.exchangeOp(1, "e"),
		c.exchangeOp(1, "f"), c.exchangeOp(2, "g", func(x *fsmpb.Exchange) { x.Value = "bob" }),
		noIssuerOp(idp+"/gone"))
	c.entry(by(actorNamed("a"), sessionOp("s")), by(actorNamed("a"), sessionOp("t", asLink)),
		by(sessionOf("t", "a"), claimOp("t", "x")),
		by(sessionOf("s", "a"), submitOp(mine)), by(sessionOf("s", "a"), endSessionOp("s")))
	c.entry(revokeOp("a"), by(actorNamed("a"), submitOp(mine)), blockOp("acme", "bob", false),
		by(rota.Local, initOp(tokenWish("c", access.RoleRoot))),
		by(rota.Local, initOp(tokenWish("d", access.RoleRoot), func(op *fsmpb.InitAuth) { op.Reset_ = true })))
	c.pass(6_000)
	c.entry(&fsmpb.Op{Op: &fsmpb.Op_DeleteRole{DeleteRole: &fsmpb.DeleteRole{Name: "acme"}}})
}

// goldenEdits changes and deletes versions of objects that can be set, the present ones and others.
func goldenEdits(c *bench) {
	all := c.versions()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		of := all[name]
		c.entry(inVersion(access.AnyVersion, of.set("2")), of.set("3"))
		first := of.etag()
		c.entry(inVersion(first, of.set("4")), inVersion(first, of.set("5")), inVersion(access.AnyVersion, of.set("6")),
			inVersion("A b", of.set("7")))
		if of.remove != nil {
			c.entry(inVersion(first, of.remove()), inVersion(of.etag(), of.remove()))
		}
	}
	c.entry(inVersion("1", submitOp(jobSpec("conditional"))))
}

// writeGolden writes a log in which every verb occurs, valid and hostile.
func writeGolden(t *testing.T) {
	b := emptyBench(t)
	b.keepLog = true
	var terms []uint64
	note := func() {
		for len(terms) < len(b.log) {
			terms = append(terms, b.term)
		}
	}
	b.lead()
	b.ok(switchOp(entry.RulesVersion))
	note()
	c := busyBenchOn(b)
	note()
	c.pass(20_000)
	note()
	for round := range 3 {
		for i, l := range inOrder(c.match()) {
			c.entry(verb(rota.LeaseVerb(1+i%6), l), KeepLogOp(l.Job, l.ID, l.Worker, []byte("late")))
		}
		c.walls = []int64{startClock + int64(round)*40_000, startClock + 50_000}
		c.pass(3_000)
		note()
		c.lead()
		note()
	}
	goldenFlows(c)
	goldenUniques(c)
	goldenPlans(c)
	goldenBatches(c)
	goldenSchedules(c)
	goldenHeaders(c)
	goldenBackfill(c)
	goldenChoices(c)
	goldenHooks(c)
	goldenOutlived(c)
	goldenLosses(c)
	goldenStops(c)
	goldenCosts(c)
	goldenBudgets(c)
	note()
	data := make([]byte, 6000)
	for i := range data {
		data[i] = byte(i*i>>3 ^ i*7)
	}
	d := &dice{data: data}
	seen := []rota.Lease{{}}
	for !d.over() {
		c.now += rota.Clock(d.roll(600))
		for _, ev := range c.entry(hostileOp(c, d, seen), hostileOp(c, d, seen)).Events {
			if a, ok := c.View.Assignment(ev.Lease); ok && ev.Kind == rota.EventJobAssigned {
				seen = append(seen, a.Lease)
			}
		}
		note()
	}
	c.pass(60_000)
	note()
	// Later verbs come at the end, so that entries written before do not change.
	c.entry(&fsmpb.Op{Op: &fsmpb.Op_SetNode{SetNode: &fsmpb.SetNode{Id: "n2", Identity: "i2", Starts: 1}}})
	for i := range 3 {
		worker := fmt.Sprint("w", i)
		session, _ := c.View.Session(rota.WorkerID(worker))
		c.entry(goneOp(worker, session, "guessed"), goneOp(worker, session, worker), goneOp(worker, session+1, worker))
	}
	c.entry(queueOp("default", "lease_grace_on_disconnect", "10s"), linked(registerOp("graced", 1, "g", false), 3))
	session, _ := c.View.Session("graced")
	c.entry(disconnectOp("graced", session, 2), disconnectOp("graced", session, 3),
		linked(registerOp("graced", 1, "g", false), 2), linked(registerOp("graced", 1, "g", false), 4))
	goldenDeletions(c)
	goldenRights(c)
	for _, id := range []string{"n4", "n5", "n6", "n7"} {
		c.entry(&fsmpb.Op{Op: &fsmpb.Op_SetNode{SetNode: &fsmpb.SetNode{Id: id, Identity: "i", Starts: 1}}})
	}
	c.entry(healthyOp("n4", "n5", "n6", "n7", "n7"), healthyOp("n4"), healthyOp("n4", "n5", "n6", "n7", "n8"))
	c.entry(removalOp("n7", "did not answer", 0), clusterOp("autopilot", "off"), removalOp("n6", "", 2),
		clusterOp("voters_wanted", "5"))
	c.entry(backupOp(c.At, "c-1.snap"))
	c.entry(backupOp(c.At-2, "c-2.snap"), backupOp(c.At, "c-3.snap"), backupOp(0, "c-4.snap"))
	c.entry(by(rota.Local, readSnapshotOp("n1", c.At)), by(rota.Anonymous, readSnapshotOp("n1", c.At)),
		by(rota.Local, readSnapshotOp("n1", c.At+9)), readSnapshotOp("n1", c.At))
	c.entry(differsOp("n2", 7, 5), differsOp("n2", 9, 5), differsOp("n3", 9, 5), switchOp(entry.RulesVersion),
		switchOp(entry.FirstRules), switchOp(0))
	c.entry(tzdataOp("2026f"), tzdataOp("2026f"), tzdataOp("x"), by(rota.Anonymous, tzdataOp("2026g")),
		by(rota.CertPrincipal(access.RoleRoot, "n"), tzdataOp("2026g")))
	goldenWith(c)
	goldenEdits(c)
	note()
	var out []byte
	var lines strings.Builder
	m := New()
	for i, entry := range b.log {
		out = binary.BigEndian.AppendUint32(out, uint32(len(entry)))
		out = binary.BigEndian.AppendUint64(out, terms[i])
		out = append(out, entry...)
		a, err := m.Apply(rota.Index(i+1), terms[i], entry)
		if err != nil {
			t.Fatal(err)
		}
		if (i+1)%goldenEvery == 0 || i+1 == len(b.log) {
			fmt.Fprintf(&lines, "%d %s clock %d events %d\n", i+1, a.Digest, a.Clock, len(a.Events))
		}
	}
	for name, content := range map[string][]byte{goldenNew + ".bin": out, goldenNew + ".txt": []byte(lines.String())} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
