package keys

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// keyRuleWords is the inverse of SetKeyRuleOp.
func keyRuleWords(op *fsmpb.SetKeyRule) rota.KeyRule {
	r := rota.KeyRule{Queue: rota.QueueName(op.GetQueue()), Name: op.GetName(), Value: op.GetValue(),
		Concurrency: op.GetConcurrency(),
		Rate:        op.GetRate(), PeriodMs: op.GetPeriodMs(), Burst: op.GetBurst(),
		Sequence: rota.KeySequence(min(op.GetSequence(), 255)), Group: op.GetGroup(), Unit: op.GetUnit(),
		DefaultCost: rota.Cost(op.GetDefaultCost()), RefuseFull: op.GetRefuseFull()}
	if b := op.GetBreaker(); b != nil {
		r.Breaker = rota.KeyBreaker{Trip: b.GetTrip(), Of: b.GetOf(), OpenMs: b.GetOpenMs(), Probes: b.GetProbes(),
			Reasons: rota.Reasons(b.GetReasons())}
	}
	if op.GetCluster() {
		r.Scope = rota.KeyOfCluster
	}
	return r
}

// Apply is the switch over the operations on keys.
func (kr *Keyring) Apply(op *fsmpb.Op) *fsmpb.Outcome {
	switch op := op.GetOp().(type) {
	case *fsmpb.Op_SetKeyRule:
		return kr.SetKeyRule(op.SetKeyRule)
	case *fsmpb.Op_DeleteKeyRule:
		return kr.deleteKeyRule(op.DeleteKeyRule)
	case *fsmpb.Op_SkipKey:
		return kr.skipKey(op.SkipKey)
	default:
		return kr.pauseKey(op.(*fsmpb.Op_PauseKey).PauseKey)
	}
}

// SetKeyRule sets the limits of a key's jobs from now on, including existing ones; it revokes no lease (SPEC §19.2).
// Repeating it changes nothing.
func (kr *Keyring) SetKeyRule(op *fsmpb.SetKeyRule) *fsmpb.Outcome {
	r := keyRuleWords(op)
	if err := r.Check(); err != nil {
		return entry.Refused(err)
	}
	q := kr.s.QueueTable.Get(r.Queue)
	switch old := kr.byName[idOfRule(&r)]; {
	case r.Queue != "" && q == nil:
		return entry.Refused(refuse.NoQueue(r.Queue))
	case q != nil && q.DrainTo != "":
		return entry.Refused(refuse.Leaving(q))
	case old != nil && old.KeyRule == r:
		return &fsmpb.Outcome{Existed: true}
	case old == nil && kr.Rules.Len() >= limits.MaxKeyRules:
		return entry.Refused(refuse.Exhausted("rule", "%d rules of keys exist: no more are taken", limits.MaxKeyRules))
	}
	if err := kr.s.Journal.Matches(kr.ruleText(idOfRule(&r))); err != nil {
		return entry.Refused(err)
	}
	if err := kr.mayGroup(&r); err != nil {
		return entry.Refused(err)
	}
	if err := kr.ports.AdmitBytes(nil, "", 1); err != nil {
		return entry.Refused(err)
	}
	if err := kr.replace(idOfRule(&r), &r); err != nil {
		return entry.Refused(err)
	}
	return &fsmpb.Outcome{}
}

// ruleText returns the name of a rule for refusals, and its version.
func (kr *Keyring) ruleText(id keyRuleID) (what, etag string) {
	if r := kr.byName[id]; r != nil {
		etag = r.ETag()
	}
	return fmt.Sprintf("the rule of key %q with queue %q and value %q", id.name, id.queue, id.value), etag
}

// deleteKeyRule removes the limits of a key's jobs.
func (kr *Keyring) deleteKeyRule(op *fsmpb.DeleteKeyRule) *fsmpb.Outcome {
	id := keyRuleID{rota.QueueName(op.GetQueue()), op.GetName(), op.GetValue()}
	if kr.byName[id] == nil {
		return &fsmpb.Outcome{Existed: true} // already deleted, or never set
	}
	if err := kr.s.Journal.Matches(kr.ruleText(id)); err != nil {
		return entry.Refused(err)
	}
	if err := kr.replace(id, nil); err != nil {
		return entry.Refused(err)
	}
	return &fsmpb.Outcome{}
}

// skipKey lets a sequence continue after a job that blocks it. It names that job, which identifies a repetition.
func (kr *Keyring) skipKey(op *fsmpb.SkipKey) *fsmpb.Outcome {
	c := kr.CountRows.Edit(state.KeyCountKey(rota.QueueName(op.GetQueue()), rota.TenantID(op.GetTenant()), op.GetKey()))
	id := rota.JobID(op.GetJob())
	switch {
	case c == nil:
		return entry.Refused(rota.Refusef(rota.KindNotFound, "key",
			"no job with key %.200q counts for %s in %s: give the queue and scope shown by `rota key list`",
			op.GetKey(), tenantOfKey(rota.TenantID(op.GetTenant())), queueOfKey(rota.QueueName(op.GetQueue()))))
	case c.Blocker == "":
		return &fsmpb.Outcome{Existed: true}
	case c.Blocker != id:
		return entry.Refused(rota.Refusef(rota.KindConflict, "job",
			"key %s is blocked by job %s, not by %.80q: look at it again", c.Text,
			c.Blocker, id))
	}
	kr.skip(c, "SKIPPED")
	return &fsmpb.Outcome{}
}

// replace replaces a rule, or removes it if to is nil. If that changes where its jobs are counted, it recounts them: a
// walk over all live jobs, which only an operator's change costs.
func (kr *Keyring) replace(id keyRuleID, to *rota.KeyRule) error {
	from := kr.byName[id]
	var jobs []*state.JobRow
	var lingers []*state.LeaseRow
	if from == nil || to == nil || from.Scope != to.Scope || (from.Sequence == 0) != (to.Sequence == 0) ||
		from.Unit != to.Unit || from.DefaultCost != to.DefaultCost || from.RefuseFull != to.RefuseFull {
		jobs, lingers = kr.jobsOf(id), outlivedBy(kr, id)
		if err := kr.mayCount(id, to, jobs, lingers); err != nil {
			return err
		}
	}
	debts := kr.debtsOf(id)
	filed := kr.withdraw(id, jobs)
	kr.recountOpen(id, lingers, -1)
	kr.put(id, to)
	kr.convertDebts(debts)
	for _, j := range jobs {
		kr.recount(id, j)
	}
	for _, j := range filed {
		kr.SetQueued(j, true, false)
	}
	kr.recountOpen(id, lingers, 1)
	var rows []*state.KeyCountRow
	kr.CountRows.Scan(func(_ string, c *state.KeyCountRow) bool {
		if id.covers(c.Queue, c.Text) {
			rows = append(rows, c)
		}
		return true
	})
	for _, c := range rows {
		kr.review(kr.CountRows.Change(c.Key, c))
	}
	for _, j := range filed {
		kr.Pending(j).Add(j.Item)
	}
	if grouped := to != nil && to.Group; grouped != (from != nil && from.Group) {
		kr.ports.Refile(id.queue)
	}
	event := rota.Event{Kind: rota.EventKeyRuleChanged, Queue: id.queue, Text: "deleted"}
	if to != nil {
		event.Text, event.Payload = "set", state.Payload(to)
	} else {
		event.Payload = state.Payload(rota.KeyRule{Queue: id.queue, Name: id.name, Value: id.value})
	}
	kr.s.Journal.Emit(event)
	return nil
}

// jobsOf returns the live jobs that a rule may apply to.
func (kr *Keyring) jobsOf(id keyRuleID) (jobs []*state.JobRow) {
	kr.s.JobTable.Scan(func(_ rota.JobID, j *state.JobRow) bool {
		if len(j.Spec.Keys) > 0 && (id.queue == "" || j.Spec.Queue == id.queue) {
			for _, key := range j.Spec.Keys {
				if id.covers(id.queue, key) {
					jobs = append(jobs, j)
				}
			}
		}
		return true
	})
	return jobs
}

// mayCount refuses a rule whose keys would exceed the limit of counted keys.
func (kr *Keyring) mayCount(id keyRuleID, to *rota.KeyRule, jobs []*state.JobRow, lingers []*state.LeaseRow) error {
	if to == nil {
		return nil
	}
	fresh := map[string]struct{}{}
	count := func(s *rota.JobSpec) {
		for _, key := range s.Keys {
			tenant := s.Tenant
			if to.Scope == rota.KeyOfCluster {
				tenant = ""
			}
			count := state.KeyCountKey(id.queue, tenant, key)
			if id.covers(id.queue, key) && kr.CountRows.Get(count) == nil {
				fresh[count] = struct{}{}
			}
		}
	}
	for _, j := range jobs {
		count(&j.Spec.JobSpec)
	}
	for _, l := range lingers {
		count(&l.Ended.Spec)
	}
	if n := kr.CountRows.Len() + len(fresh); n > limits.MaxKeyCounts {
		return refuse.Exhausted("keys", "with this rule %d keys are counted: at most %d are", n, limits.MaxKeyCounts)
	}
	return nil
}

// withdraw removes jobs from the counts that a rule covers, and QUEUED ones, which it returns, from their lanes.
func (kr *Keyring) withdraw(id keyRuleID, jobs []*state.JobRow) (filed []*state.JobRow) {
	var room [maxKeyHolds]keyHold
	for _, j := range jobs {
		if j.Item != nil {
			kr.SetQueued(j, false, false)
			kr.Pending(j).Remove(j.Item)
			filed = append(filed, j)
		}
		for _, h := range kr.of(&j.Spec.JobSpec, room[:0]) {
			if !id.covers(h.rule.Queue, h.key) {
				continue
			}
			c := kr.CountRows.Edit(h.count)
			c.Jobs--
			if !j.Lease.IsZero() {
				c.Open--
			}
			kr.line.Delete(state.KeyPlace{Count: c.Key, Place: c.PlaceOf(j), Job: j.Spec.ID})
		}
	}
	return filed
}

// recountOpen adds by to the open counts of leases that have outlived their jobs.
func (kr *Keyring) recountOpen(id keyRuleID, leases []*state.LeaseRow, by int64) {
	var room [maxKeyHolds]keyHold
	for _, l := range leases {
		for _, h := range kr.of(&l.Ended.Spec, room[:0]) {
			if id.covers(h.rule.Queue, h.key) {
				kr.counted(&h).Open += by
			}
		}
	}
}

// recount undoes withdraw under the present rules, except for the lanes.
func (kr *Keyring) recount(id keyRuleID, j *state.JobRow) {
	var room [maxKeyHolds]keyHold
	for _, h := range kr.of(&j.Spec.JobSpec, room[:0]) {
		if !id.covers(h.rule.Queue, h.key) {
			continue
		}
		c := kr.counted(&h)
		c.Jobs++
		if !j.Lease.IsZero() {
			c.Open++
		}
		if h.rule.Sequence != rota.SequenceNone {
			kr.line.Set(state.KeyPlace{Count: c.Key, Place: c.PlaceOf(j), Job: j.Spec.ID})
		}
	}
}

// review settles a count after its rule changed; c is editable.
func (kr *Keyring) review(c *state.KeyCountRow) {
	r := kr.RuleOf(c)
	if r == nil || (r.Scope == rota.KeyOfCluster) != (c.Tenant == "") {
		kr.drop(c)
		return
	}
	if kr.Groups[c.Queue] == nil {
		c.Turn = 0
	}
	if r.Rate > 0 && r.Unit == "" && kr.s.Header.Rules >= state.ShortenRules {
		c.Tat = r.Bucket().Within(c.Tat, kr.s.Header.Clock)
	}
	if c.Blocker != "" && r.Sequence != rota.SequenceBlock {
		kr.skip(c, "RULE_CHANGED")
		return
	}
	kr.settle(c, r)
}

// lingering returns one of the leases of a key's count whose jobs have ended, and their number.
func lingering(kr *Keyring, count string) (one *state.LeaseRow, n int) {
	kr.ports.Outlived(func(l *state.LeaseRow) {
		for _, h := range kr.of(&l.Ended.Spec, nil) {
			if h.count == count {
				one, n = l, n+1
			}
		}
	})
	return one, n
}

// outlivedBy returns the leases whose jobs have ended and that a rule may apply to.
func outlivedBy(kr *Keyring, id keyRuleID) (list []*state.LeaseRow) {
	kr.ports.Outlived(func(l *state.LeaseRow) {
		for _, k := range l.Ended.Spec.Keys {
			if (id.queue == "" || l.Queue == id.queue) && id.covers(id.queue, k) {
				list = append(list, l)
				break
			}
		}
	})
	return list
}

// EachLingering visits the full keys of a job whose slots are used by leases whose jobs have ended: with one of these
// leases, and their number.
func EachLingering(kr *Keyring, j *state.JobRow, visit func(key string, one *state.LeaseRow, n int)) {
	for _, h := range kr.of(&j.Spec.JobSpec, nil) {
		c := kr.CountRows.Get(h.count)
		if !c.Full {
			continue
		}
		if l, n := lingering(kr, h.count); n > 0 {
			visit(c.Text, l, n)
		}
	}
}
