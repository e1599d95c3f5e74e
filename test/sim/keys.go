package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/internal/peer"
)

// keyer submits jobs with keys (SPEC §19) and sets their rules, cancels, retries and deletes some, and skips jobs that
// block a sequence. It draws from a random source of its own, separate from the world's.
type keyer struct {
	actor
	w      *World
	chance *rand.Rand
	n      int
	// weighs reports that the rule that counts a cost was set: newer rules are in force.
	weighs bool
}

// weighted counts a cost instead of assignments.
var weighted = rota.KeyRule{Name: "w", Scope: rota.KeyOfCluster, Rate: 1, PeriodMs: 700, Burst: 12, Unit: "u",
	DefaultCost: 3 * rota.CostUnit}

// fragile has a breaker.
var fragile = rota.KeyRule{Name: "b", Scope: rota.KeyOfCluster, Breaker: rota.KeyBreaker{Trip: 2, Of: 3,
	OpenMs: 100, Probes: 2, Reasons: 1<<rota.ReasonProviderFail | 1<<rota.ReasonLeaseExpired}}

// keyRules are set from the beginning; those of "c" and "v" are changed and deleted.
var keyRules = []rota.KeyRule{
	{Name: "c", Concurrency: 2},
	{Name: "c", Value: "1", Concurrency: 1},
	{Name: "g", Scope: rota.KeyOfCluster, Concurrency: 1},
	{Name: "r", Rate: 3, PeriodMs: 5_000, Burst: 2},
	{Name: "s", Sequence: rota.SequenceBlock},
	{Name: "p", Queue: rota.DefaultQueue, Sequence: rota.SequenceSkip, Concurrency: 3},
	{Name: "v", Sequence: rota.SequenceBlock, Scope: rota.KeyOfCluster},
}

func newKeyer(w *World) *keyer {
	k := &keyer{w: w, chance: rand.New(rand.NewPCG(w.Seed, 0x1911))}
	k.name = "keyer"
	if w.Keys {
		w.on(&k.actor, 2_000, k.next)
		for i := range keyRules {
			k.ask(fsm.SetKeyRuleOp(&keyRules[i]))
		}
		if w.Turns {
			k.ask(turnsOp())
		}
	}
	return k
}

// next performs one action. As the world heals it only skips blocking jobs, so that everything ends.
func (k *keyer) next() {
	w := k.w
	if w.now >= max(w.Heal, 20_000) {
		w.on(&k.actor, 3_000, k.next)
		k.pass(1)
		return
	}
	w.on(&k.actor, Time(k.chance.IntN(1_200)), k.next)
	if !k.weighs && k.machine().Head().Rules >= 2 {
		k.weighs = true
		k.ask(fsm.SetKeyRuleOp(&weighted))
		k.ask(fsm.SetKeyRuleOp(&fragile))
		for i := range keyBudgets {
			k.ask(fsm.SetBudgetOp(&keyBudgets[i]))
		}
	}
	if w.Turns && k.chance.IntN(5) == 0 {
		k.turnJobs()
		return
	}
	switch c := k.chance.IntN(16); {
	case c < 9:
		k.submit()
	case c == 9:
		k.ask(&fsmpb.Op{Op: &fsmpb.Op_Cancel{Cancel: &fsmpb.Cancel{Job: string(k.job())}}})
	case c < 12:
		k.again()
	case c == 12:
		id := k.job()
		if seq, _, ok := k.machine().Tombstone(id); ok && k.chance.IntN(3) == 0 {
			k.ask(fsm.DeleteJobOp(id, seq))
		}
	case c < 15:
		k.pass(3)
	case k.weighs && k.chance.IntN(2) == 0:
		if k.chance.IntN(2) == 0 {
			k.pause()
		} else {
			k.grant()
		}
	default:
		k.change()
	}
}

// pause pauses a key for a few seconds, or resumes it.
func (k *keyer) pause() {
	m := k.machine()
	key, tenant := k.stopped()
	if k.chance.IntN(4) == 0 {
		k.ask(fsm.ResumeKeyOp("", tenant, key))
		return
	}
	k.ask(fsm.PauseKeyOp("", tenant, key, m.Head().Date+rota.Date(1+k.chance.IntN(9_000)), "sim"))
}

// grant adds to a budget, or resets it.
func (k *keyer) grant() {
	name, of := keyBudgets[0].Name, ""
	if k.chance.IntN(2) == 0 {
		name, of = keyBudgets[1].Name, fmt.Sprint("t", k.chance.IntN(2))
	}
	c := rota.BudgetChange{ID: fmt.Sprint("g", k.chance.IntN(50)), Reason: "sim",
		Amount: rota.Cost(1+k.chance.IntN(20)) * rota.CostUnit}
	if k.chance.IntN(4) == 0 {
		k.ask(fsm.ResetBudgetOp(name, of, false, c))
		return
	}
	k.ask(fsm.GrantBudgetOp(name, of, c))
}

// stopped draws a key to pause.
func (k *keyer) stopped() (key string, tenant rota.TenantID) {
	if k.chance.IntN(2) == 0 {
		return "b:0", ""
	}
	return fmt.Sprint("s:", k.chance.IntN(3)), rota.TenantID(fmt.Sprint("t", k.chance.IntN(2)))
}

// machine returns the state of a random node, which may lag.
func (k *keyer) machine() *fsm.Machine { return k.w.nodes[k.chance.IntN(len(k.w.nodes))].machine }

// job draws a submitted job.
func (k *keyer) job() rota.JobID { return rota.JobID(fmt.Sprint("k", k.chance.IntN(max(k.n, 1)))) }

func (k *keyer) submit() {
	w := k.w
	s := rota.NewJobSpec("work", []byte(fmt.Sprint(k.n)))
	s.ID, s.Tenant = rota.JobID(fmt.Sprint("k", k.n)), rota.TenantID(fmt.Sprint("t", k.chance.IntN(2)))
	s.Priority = int32(k.chance.IntN(11))
	s.Retry = rota.RetryPolicy{Attempts: 2, Base: millis.Duration(500)}
	for len(s.Keys) == 0 {
		for _, name := range []string{"c", "g", "r", "s", "p", "v"} {
			if k.chance.IntN(4) == 0 && len(s.Keys) < rota.MaxKeys {
				s.Keys = append(s.Keys, fmt.Sprint(name, ":", k.chance.IntN(3)))
			}
		}
	}
	if k.weighs && k.chance.IntN(2) == 0 && len(s.Keys) < rota.MaxKeys {
		s.Keys = append(s.Keys, "w:0")
		if k.chance.IntN(3) > 0 {
			s.Costs = rota.Costs{"u": k.chance.Int64N(15 * rota.CostUnit)}
		}
	}
	if k.weighs && k.chance.IntN(3) == 0 && len(s.Keys) < rota.MaxKeys {
		s.Keys = append(s.Keys, "b:0")
	}
	if k.chance.IntN(3) == 0 { // a pending head holds back those behind it
		s.Delay = millis.Duration(int64(k.chance.IntN(4_000)))
	}
	if k.chance.IntN(8) == 0 {
		s.TTL = millis.Duration(int64(5_000 + k.chance.IntN(20_000)))
	}
	k.n++
	w.audit.keyed.specs[s.ID] = &s
	w.audit.expires[s.ID] = w.audit.clock + rota.Clock(s.TTL.Milliseconds())
	k.ask(&fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(&s)}}})
}

// again retries a job that did not complete.
func (k *keyer) again() {
	m, id := k.machine(), k.job()
	j, ok := m.Job(id)
	if !ok || !j.State.Terminal() || j.State == rota.JobCompleted {
		return
	}
	k.w.audit.expires[id] = 0 // its time to live starts again, at an unknown moment
	k.ask(&fsmpb.Op{Op: &fsmpb.Op_Retry{Retry: &fsmpb.Retry{Job: string(id), Life: j.Life,
		Spec: entry.SpecOp(k.w.audit.keyed.specs[id])}}})
}

// pass skips blocking jobs, one in n that it finds.
func (k *keyer) pass(n int) {
	m := k.machine()
	for _, name := range []string{"s", "v"} {
		for value := range 3 {
			for tenant := range 2 {
				key := fmt.Sprint(name, ":", value)
				for _, s := range fsm.KeyStates(&m.View, rota.TenantID(fmt.Sprint("t", tenant)), key,
					func(*rota.KeyState) bool { return true }) {
					if s.Blocker != "" && k.chance.IntN(n) == 0 {
						k.ask(fsm.SkipKeyOp(s.Queue, s.Tenant, key, s.Blocker))
					}
				}
			}
		}
	}
}

// change sets another limit, or deletes a rule and sets it again.
func (k *keyer) change() {
	r := rota.KeyRule{Name: "c", Concurrency: 1 + int64(k.chance.IntN(3))}
	if k.chance.IntN(3) == 0 {
		r.Value = "1"
	}
	if k.chance.IntN(3) == 0 {
		r = keyRules[len(keyRules)-1]
	}
	if k.chance.IntN(2) == 0 {
		k.ask(fsm.DeleteKeyRuleOp(r.Queue, r.Name, r.Value))
	}
	k.ask(fsm.SetKeyRuleOp(&r))
}

// handles draws the result of a job with keys: some fail permanently at once, so that they block.
func (k *keyer) handles(t *task) {
	if k.chance.IntN(6) == 0 {
		t.report, t.fail, t.wait = rota.VerbFail, peer.FailNoRetry, 0
	}
}

// pauses returns the key of a job that a handler's snooze pauses: one in four does. No jobs of the queue with turns do,
// whose model knows no stops; TestPauseKey_turns is about them.
func (k *keyer) pauses(n *node, t *task, v rota.LeaseVerb, l *rota.Lease) string {
	s := k.w.audit.keyed.specs[l.Job]
	if v != rota.VerbFail || t.fail != peer.FailSnooze || t.wait > 5*time.Second || !k.weighs ||
		n.machine.Head().Rules < 2 || s == nil || len(s.Keys) == 0 || s.Queue == turnsQueue || l.ID[3]%4 > 0 {
		return ""
	}
	return s.Keys[int(l.ID[4])%len(s.Keys)]
}

// spends returns what a handler reports with the verb that ends its lease: three in four report something.
func (k *keyer) spends(n *node, v rota.LeaseVerb, l *rota.Lease) rota.Costs {
	ends := v == rota.VerbComplete || v == rota.VerbFail || v == rota.VerbDecline
	if !ends || !k.weighs || l.ID[1]%4 == 0 || n.machine.Head().Rules < 2 || k.w.audit.keyed.specs[l.Job] == nil {
		return nil
	}
	return rota.Costs{"u": int64(l.ID[2]) * rota.CostUnit / 32}
}

// ask repeats an operation until it is answered.
func (k *keyer) ask(op *fsmpb.Op) {
	w, answered := k.w, false
	var try func()
	try = func() {
		if answered {
			return
		}
		n := w.nodes[k.chance.IntN(len(w.nodes))]
		w.forward(n, &k.actor, !n.down, op, func(*fsmpb.Outcome) { answered = true })
		w.on(&k.actor, 500, try)
	}
	try()
}
