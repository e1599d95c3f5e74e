package budgets

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// wordsOf is the inverse of SetBudgetOp.
func wordsOf(op *fsmpb.SetBudget) *rota.Budget {
	return &rota.Budget{Name: rota.BudgetName(op.GetName()), Tenant: rota.TenantID(op.GetTenant()),
		Queue: rota.QueueName(op.GetQueue()), Key: op.GetKey(), Each: rota.BudgetEach(min(op.GetEach(), 255)),
		Unit: op.GetUnit(), Limit: rota.Cost(op.GetLimit()), DefaultCost: rota.Cost(op.GetDefaultCost()),
		Every: rota.BudgetPeriod(min(op.GetEvery(), 255)), TZ: op.GetTz(), WarnPermille: op.GetWarnPermille(),
		Then: rota.BudgetThen(min(op.GetThen(), 255)), Stop: op.GetStop()}
}

// Apply is the switch over the operations on budgets.
func (bd *Budgets) Apply(op *fsmpb.Op) *fsmpb.Outcome {
	var o *fsmpb.Outcome
	var err error
	switch op := op.GetOp().(type) {
	case *fsmpb.Op_SetBudget:
		o, err = bd.set(op.SetBudget)
	case *fsmpb.Op_DeleteBudget:
		o, err = bd.remove(op.DeleteBudget)
	case *fsmpb.Op_GrantBudget:
		o, err = bd.grant(op.GrantBudget)
	case *fsmpb.Op_ResetBudget:
		o, err = bd.forgive(op.ResetBudget)
	default:
		if o := bd.s.Internal(); o != nil {
			return o
		}
		o, err = bd.turn(op.(*fsmpb.Op_TurnBudget).TurnBudget)
	}
	if err != nil {
		return entry.Refused(err)
	}
	return o
}

func versionOf(r *state.BudgetRow, name rota.BudgetName) (what, etag string) {
	if r != nil {
		etag = r.ETag()
	}
	return fmt.Sprintf("budget %q", name), etag
}

// set creates a budget, or replaces it. The spent amount stays, unless the budget is then about other jobs or another
// unit. Open attempts count at once.
func (bd *Budgets) set(op *fsmpb.SetBudget) (*fsmpb.Outcome, error) {
	b := wordsOf(op)
	if err := b.Check(); err != nil {
		return nil, err
	}
	q, old := bd.s.QueueTable.Get(b.Queue), bd.Rows.Get(b.Name)
	switch {
	case bd.s.Header.Cluster == "":
		return nil, rota.Refusef(rota.KindUnavailable, "cluster", "the cluster has no leader yet: try again")
	case b.Queue != "" && q == nil:
		return nil, refuse.NoQueue(b.Queue)
	case q != nil && q.DrainTo != "":
		return nil, refuse.Leaving(q)
	case old != nil && *old.Spec == *b:
		return &fsmpb.Outcome{Existed: true}, nil
	case old == nil && bd.Rows.Len() >= limits.MaxBudgets:
		return nil, refuse.Exhausted("budget", "%d budgets exist: no more are taken", limits.MaxBudgets)
	}
	if at := placeOf(b); len(bd.at[at]) >= limits.MaxBudgetsAt && (old == nil || placeOf(old.Spec) != at) {
		return nil, refuse.Exhausted("budget", "%d budgets apply to the same key, tenant or queue: no more are taken",
			len(bd.at[at]))
	}
	if err := bd.s.Journal.Matches(versionOf(old, b.Name)); err != nil {
		return nil, err
	}
	if err := bd.ports.AdmitBytes(nil, "", 1); err != nil {
		return nil, err
	}
	r := &state.BudgetRow{Spec: b, Version: bd.s.At, Since: bd.s.Header.Date()}
	switch {
	case old == nil:
	case old.Spec.Unit != b.Unit || !sameJobs(old.Spec, b):
		bd.dropAccounts(old.Spec.Name)
		bd.changed(old.Spec, "deleted")
	case old.Until != 0 && old.Until <= r.Since: // the leader has not begun the next period yet
		bd.begin(old.Spec)
	default:
		if r.Since = old.Since; old.Spec.Every == b.Every && old.Spec.TZ == b.TZ {
			r.Until, r.Version = old.Until, old.Version // the leader's next period is still the next one
		}
	}
	if old != nil {
		r.Resets = old.Resets
	}
	bd.replace(old, r)
	bd.changed(b, "set")
	bd.recount(b)
	return &fsmpb.Outcome{}, nil
}

// changed emits an event about a budget's settings.
func (bd *Budgets) changed(b *rota.Budget, how string) {
	bd.s.Journal.Emit(rota.Event{Kind: rota.EventBudgetChanged, Queue: b.Queue, Tenant: b.Tenant, Text: how,
		Payload: state.Payload(*b)})
}

// begin begins a period of a budget's accounts.
func (bd *Budgets) begin(b *rota.Budget) {
	for _, of := range bd.accountsOf(b.Name) {
		h := hold(b, of)
		bd.edit(h).Begin(bd.s.Header.Date())
		bd.settle(h)
	}
}

// sameJobs reports whether two budgets keep the same accounts of the same jobs.
func sameJobs(a, b *rota.Budget) bool {
	return a.Tenant == b.Tenant && a.Queue == b.Queue && a.Key == b.Key && a.Each == b.Each
}

// replace puts a budget in the place of another; either may be nil. If that changes how its QUEUED jobs are filed, it
// files them again: a walk over all live jobs, which only an operator's change costs.
func (bd *Budgets) replace(old, r *state.BudgetRow) {
	var filed []*state.JobRow
	refiles := old == nil || r == nil || old.Spec.Unit != r.Spec.Unit || old.Spec.DefaultCost != r.Spec.DefaultCost ||
		!sameJobs(old.Spec, r.Spec)
	if refiles {
		bd.s.JobTable.Scan(func(_ rota.JobID, j *state.JobRow) bool {
			if j.Item != nil && (applies(old, j) || applies(r, j)) {
				filed = append(filed, j)
			}
			return true
		})
	}
	for _, j := range filed {
		bd.SetQueued(j, false, false)
		bd.ports.Pending(j).Remove(j.Item)
	}
	if old != nil {
		bd.unlist(old.Spec)
		bd.Rows.Drop(old.Spec.Name)
	}
	if r != nil {
		bd.Rows.Insert(r.Spec.Name, r)
		bd.list(r.Spec)
		bd.classes.Scan(func(c *class) bool {
			if c.Budget.Name == r.Spec.Name {
				c.Budget = r.Spec
			}
			return true
		})
	}
	for _, j := range filed {
		bd.SetQueued(j, true, false)
	}
	for _, j := range filed {
		for _, h := range bd.Of(j.Spec.ID, &j.Spec.JobSpec, nil) {
			bd.refresh(h.budget, h.key, bd.left(h.budget, h.key)) // it may hold again
		}
	}
	for _, j := range filed {
		bd.ports.Pending(j).Add(j.Item)
	}
}

func applies(r *state.BudgetRow, j *state.JobRow) bool {
	if r == nil {
		return false
	}
	_, ok := r.Spec.Account(j.Spec.ID, &j.Spec.JobSpec)
	return ok
}

// recount calculates the reservations of the accounts of a budget, and reviews each of them.
func (bd *Budgets) recount(b *rota.Budget) {
	sums := bd.reserved(func(o *rota.Budget) bool { return o.Name == b.Name })
	names := bd.accountsOf(b.Name)
	known := map[string]bool{}
	for _, of := range names {
		known[of] = true
	}
	bd.ports.Leases.Scan(func(_ string, l *state.LeaseRow) bool {
		if of, ok := b.Account(l.Job, bd.ports.SpecOf(l)); ok && !known[of] {
			known[of], names = true, append(names, of)
		}
		return true
	})
	for _, of := range names {
		h := hold(b, of)
		if sum := sums[h.key]; !sum.IsZero() || bd.AccountRows.Get(h.key) != nil {
			r := bd.edit(h)
			r.Reserved, r.Warned, r.Full, r.Short = sum, false, false, false
		}
		bd.settle(h)
	}
	if b.Each == rota.EachNone { // other accounts without a row emit their event when they change
		bd.settle(hold(b, ""))
		return
	}
	var waiting []string
	bd.classes.Scan(func(c *class) bool {
		if c.Budget.Name == b.Name && (len(waiting) == 0 || waiting[len(waiting)-1] != c.account) {
			waiting = append(waiting, c.account)
		}
		return true
	})
	for _, key := range waiting {
		bd.refresh(b, key, bd.left(b, key))
	}
}

// accountsOf lists the accounts of a budget that have a row.
func (bd *Budgets) accountsOf(name rota.BudgetName) (ofs []string) {
	from := state.AccountKey(name, "")
	bd.AccountRows.Tree.Ascend(from, func(_ string, r *state.AccountRow) bool {
		if r.Budget != name {
			return false
		}
		ofs = append(ofs, r.Of)
		return true
	})
	return ofs
}

func (bd *Budgets) dropAccounts(name rota.BudgetName) {
	for _, of := range bd.accountsOf(name) {
		bd.drop(bd.AccountRows.Get(state.AccountKey(name, of)))
	}
}

// remove deletes a budget and its accounts; its jobs wait for it no longer.
func (bd *Budgets) remove(op *fsmpb.DeleteBudget) (*fsmpb.Outcome, error) {
	name := rota.BudgetName(op.GetName())
	if err := rota.CheckID("name", name); err != nil {
		return nil, err
	}
	r := bd.Rows.Get(name)
	if r == nil {
		return &fsmpb.Outcome{Existed: true}, nil
	}
	if err := bd.s.Journal.Matches(versionOf(r, name)); err != nil {
		return nil, err
	}
	bd.dropAccounts(name)
	bd.replace(r, nil)
	bd.changed(r.Spec, "deleted")
	return &fsmpb.Outcome{}, nil
}

// named returns the budget of a call about an account.
func (bd *Budgets) named(name, id, reason string) (*state.BudgetRow, error) {
	r := bd.Rows.Get(rota.BudgetName(name))
	switch {
	case r == nil:
		return nil, rota.Refusef(rota.KindNotFound, "budget", "budget %.80q is not known", name)
	case len(reason) > limits.MaxReasonBytes:
		return nil, rota.TooLong("reason", len(reason), limits.MaxReasonBytes)
	}
	return r, rota.CheckID("id", id)
}

// owner refuses an account that the jobs of a budget cannot have.
func (bd *Budgets) owner(b *rota.Budget, of string) error {
	var err error
	known := true
	switch b.Each {
	case rota.EachTenant:
		err = rota.CheckID("of", of)
		known = b.Tenant == "" || of == string(b.Tenant)
	case rota.EachKey:
		name, value, _ := strings.Cut(of, ":")
		known = name == b.Key && value != ""
		err = (&rota.KeyRule{Name: name, Value: value}).Check()
	case rota.EachWorkflow:
		known = bd.ports.FlowLives(rota.WorkflowID(of))
	case rota.EachJob:
		known = bd.s.JobTable.Get(rota.JobID(of)) != nil
	default:
		known = of == ""
	}
	switch {
	case of == "" && !known:
		return rota.Refusef(rota.KindInvalid, "of", "of: got none; budget %s has an account for each %s: name one",
			b.Name, b.Each)
	case b.Each == rota.EachNone && !known:
		return rota.Refusef(rota.KindInvalid, "of", "of: got %.80q; budget %s has one account: leave it out", of,
			b.Name)
	case err != nil || !known:
		return rota.Refusef(rota.KindInvalid, "of", "of: got %.80q, want a live %s that budget %s applies to", of,
			b.Each,
			b.Name)
	}
	return nil
}

// grant adds to the limit of an account for the present period.
func (bd *Budgets) grant(op *fsmpb.GrantBudget) (*fsmpb.Outcome, error) {
	r, err := bd.named(op.GetName(), op.GetId(), op.GetReason())
	if err != nil {
		return nil, err
	}
	b, of, amount := r.Spec, op.GetOf(), rota.Cost(op.GetAmount())
	key := state.AccountKey(b.Name, of)
	a := bd.Account(key)
	if made := a.Grant(op.GetId()); made != nil {
		if made.Amount != amount {
			return nil, rota.Refusef(rota.KindConflict, "id", "id %s belongs to a grant of %s: choose another one",
				op.GetId(), made.Amount)
		}
		return &fsmpb.Outcome{Existed: true}, nil
	}
	if err := bd.owner(b, of); err != nil {
		return nil, err
	}
	switch most := rota.Cost(rota.MaxCost - int64(b.Limit) - a.Granted); {
	case amount <= 0 || amount > most:
		return nil, rota.Refusef(rota.KindInvalid, "amount",
			"amount: got %s, want more than 0 and at most %s, with which the limit is %s", amount, max(0, most),
			rota.Cost(rota.MaxCost))
	case bd.crowded(b.Name, key):
		return nil, refuse.Exhausted("budget", "too many accounts of budgets are open: none is opened for %s",
			textOf(b, of))
	}
	h := hold(b, of)
	row := bd.edit(h)
	row.Granted += op.GetAmount()
	row.Warned, row.Full, row.Short = false, false, false
	row.Note(rota.BudgetChange{ID: op.GetId(), Amount: amount, Reason: op.GetReason(), By: bd.s.Journal.Caller.Actor,
		At: bd.s.Header.Date()})
	bd.tell(rota.EventBudgetGranted, b, of, event{Amount: amount, Why: op.GetReason()})
	bd.settle(h)
	return &fsmpb.Outcome{}, nil
}

// forgive forgets the spent and granted amounts of an account, or of all of a budget.
func (bd *Budgets) forgive(op *fsmpb.ResetBudget) (*fsmpb.Outcome, error) {
	r, err := bd.named(op.GetName(), op.GetId(), op.GetReason())
	if err != nil {
		return nil, err
	}
	b, of := r.Spec, op.GetOf()
	switch {
	case op.GetAll() && of != "":
		err = rota.Refusef(rota.KindInvalid, "of", "of: got %.80q and all; use one of them", of)
	case slices.Contains(r.Resets, op.GetId()):
		return &fsmpb.Outcome{Existed: true}, nil
	case !op.GetAll():
		err = bd.owner(b, of)
	}
	if err != nil {
		return nil, err
	}
	bd.Rows.Edit(b.Name).NoteReset(op.GetId())
	event := event{Why: op.GetReason(), All: op.GetAll()}
	if !op.GetAll() {
		bd.tell(rota.EventBudgetReset, b, of, event)
		bd.forget(b, of)
		return &fsmpb.Outcome{}, nil
	}
	bd.tell(rota.EventBudgetReset, b, "", event)
	for _, of := range bd.accountsOf(b.Name) {
		bd.forget(b, of)
	}
	return &fsmpb.Outcome{}, nil
}

// turn states the present period of a budget, or begins the next one: it clears the amounts spent and granted, and
// keeps the reservations of open attempts. It names the end of the last period, so that each begins once.
func (bd *Budgets) turn(op *fsmpb.TurnBudget) (*fsmpb.Outcome, error) {
	name, from := rota.BudgetName(op.GetName()), rota.Date(op.GetFromMs())
	since, until, now := rota.Date(op.GetSinceMs()), rota.Date(op.GetUntilMs()), bd.s.Header.Date()
	r := bd.Rows.Get(name)
	switch {
	case r == nil || r.Spec.Every == rota.EveryNone || r.Version != rota.Index(op.GetVersion()) ||
		r.Until != from && !planted.turnsTwice():
		return nil, rota.Refusef(rota.KindStale, "from",
			"budget %.80q is not in a period of version %d that ends at %s",
			name, op.GetVersion(), from)
	case since > now || until <= now && !planted.turnsTwice() || from != 0 && since < from || since < 0:
		return nil, rota.Refusef(rota.KindInvalid, "since",
			"since: got %s to %s after %s, want a period that is now, at %s",
			since, until, from, now)
	case len(op.GetTzdata()) > rota.MaxIDBytes:
		return nil, rota.TooLong("tzdata", len(op.GetTzdata()), rota.MaxIDBytes)
	}
	if err := bd.ports.SameZones(op.GetTzdata()); err != nil {
		return nil, err
	}
	r = bd.Rows.Edit(name)
	r.Since, r.Until = since, until
	if from == 0 {
		return &fsmpb.Outcome{}, nil
	}
	bd.tell(rota.EventBudgetReset, r.Spec, "", event{Why: "its period is over", All: true, Since: since,
		Until: until})
	bd.begin(r.Spec)
	return &fsmpb.Outcome{}, nil
}
