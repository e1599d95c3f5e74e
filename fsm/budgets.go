package fsm

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/tidwall/btree"
)

// budgets owns the budgets and their accounts (SPEC §30.5). Jobs without a budget cost only a lookup.
//
// QUEUED jobs of an account are filed by their estimates: those of one estimate are a class. A class that does not fit
// into the amount left is full, like a full count of a key: rounds look at none of its jobs, and smaller ones pass.
type budgets struct {
	s         *state.State
	admission *admission
	fleet     *fleet
	flows     *flows
	keyring   *keyring
	leasing   *leasing
	schedules *schedules
	rows      state.Table[rota.BudgetName, state.BudgetRow, *state.BudgetRow]
	accounts  state.Table[string, state.AccountRow, *state.AccountRow]

	// The following fields are derived. at lists the budgets by where their jobs find them; shapes counts the places by
	// which of their three fields are set, as bits. flows are the budgets with an account for each workflow.
	at      map[budgetPlace][]listedBudget
	shapes  [8]int
	ofFlows []rota.BudgetName
	// refusing is the number of budgets that refuse submissions.
	refusing int
	// rowsOf counts the rows of accounts by budget.
	rowsOf map[rota.BudgetName]int
	// classes are those of QUEUED jobs by account and estimate; byName finds them by the name of their lanes' count.
	classes *btree.BTreeG[*budgetClass]
	byName  map[string]*budgetClass
	pivot   budgetClass // of a search in classes
	// held are the accounts with a full class. asks are the open questions: the accounts that ask, with nothing left or
	// with a full class.
	held map[string]bool
	asks btree.Set[string]
}

// listedBudget is a budget as jobs find it. key is the AccountKey of its only account, "" if it has several.
type listedBudget struct {
	*rota.Budget
	key string
}

// budgetPlace is where jobs find a budget: the name of its key, its tenant and its queue, "" for any.
type budgetPlace struct {
	key    string
	tenant rota.TenantID
	queue  rota.QueueName
}

func placeOfBudget(b *rota.Budget) budgetPlace { return budgetPlace{b.KeyName(), b.Tenant, b.Queue} }

// shape returns which fields are set, as bits.
func (p budgetPlace) shape() (bits int) {
	for i, set := range [...]bool{p.key != "", p.tenant != "", p.queue != ""} {
		if set {
			bits |= 1 << i
		}
	}
	return bits
}

// budgetClass is the QUEUED jobs of an account with the same estimate.
type budgetClass struct {
	budget *rota.Budget
	// account is the AccountKey, name that of the lanes' count.
	account, name string
	estimate      int64
	jobs          int64
	full          bool
}

func budgetClassLess(a, b *budgetClass) bool {
	if a.account != b.account { // mostly the same text in memory, so this is fast
		return a.account < b.account
	}
	return a.estimate < b.estimate
}

// needs returns the amount that must be left for a job of an estimate to start.
func needs(estimate int64) int64 { return max(1, estimate) }

// fills reports whether the jobs of the class may not start with an amount left.
func (c *budgetClass) fills(left int64) bool {
	return c.budget.Then != rota.ThenWarn && left < needs(c.estimate)
}

// budgetHold is a budget that applies to a job: the job's account and its AccountKey, and its estimate in millionths.
type budgetHold struct {
	budget   *rota.Budget
	of, key  string
	estimate int64
}

// budgetMark begins the names of the classes' counts; no count of a key begins with it.
const budgetMark = "\x01"

// appendClass appends the name of the job's class.
func (h *budgetHold) appendClass(to []byte) []byte {
	to = append(append(append(to, budgetMark...), h.key...), budgetMark...)
	return strconv.AppendInt(to, h.estimate, 36)
}

// classOf returns the class of a job, nil if no job of it is QUEUED.
func (bd *budgets) classOf(h *budgetHold) *budgetClass {
	var room [3 * rota.MaxIDBytes]byte
	return bd.byName[string(h.appendClass(room[:0]))]
}

func (bd *budgets) reset() {
	bd.at, bd.byName = map[budgetPlace][]listedBudget{}, map[string]*budgetClass{}
	bd.shapes, bd.ofFlows, bd.rowsOf = [8]int{}, nil, map[rota.BudgetName]int{}
	bd.refusing = 0
	bd.held, bd.asks = map[string]bool{}, btree.Set[string]{}
	bd.classes = btree.NewBTreeGOptions(budgetClassLess, btree.Options{NoLocks: true})
}

// of appends the budgets that apply to a job, by name.
func (bd *budgets) of(id rota.JobID, s *rota.JobSpec, to []budgetHold) []budgetHold {
	if len(bd.at) == 0 {
		return to
	}
	for shape, n := range bd.shapes {
		if n == 0 {
			continue
		}
		var at budgetPlace
		if shape&2 != 0 {
			at.tenant = s.Tenant
		}
		if shape&4 != 0 {
			at.queue = s.Queue
		}
		if shape&1 == 0 {
			to = bd.find(at, id, s, to)
			continue
		}
		for _, key := range s.Keys {
			at.key, _, _ = strings.Cut(key, ":")
			to = bd.find(at, id, s, to)
		}
	}
	if len(to) > 1 {
		slices.SortFunc(to, func(a, b budgetHold) int { return cmp.Compare(a.budget.Name, b.budget.Name) })
	}
	return to
}

func (bd *budgets) find(at budgetPlace, id rota.JobID, s *rota.JobSpec, to []budgetHold) []budgetHold {
	for _, b := range bd.at[at] {
		if of, ok := b.Account(id, s); ok {
			to = append(to, budgetHold{b.Budget, of, bd.keyOf(&b, of), b.Estimate(s)})
		}
	}
	return to
}

// keyOf returns the key of an account, without allocating a text if it is known.
func (bd *budgets) keyOf(b *listedBudget, of string) string {
	if b.key != "" {
		return b.key
	}
	var room [3 * rota.MaxIDBytes]byte
	key := append(append(append(room[:0], b.Name...), budgetMark...), of...)
	if r := bd.accounts.Known[string(key)]; r != nil {
		return r.Key
	}
	return string(key)
}

// hold returns an account of a budget without a job.
func hold(b *rota.Budget, of string) *budgetHold {
	return &budgetHold{budget: b, of: of, key: state.AccountKey(b.Name, of)}
}

// fewBudgets is how many budgets usually apply to a job at most.
const fewBudgets = 4

// list makes a budget known to its jobs; unlist is its inverse.
func (bd *budgets) list(b *rota.Budget) {
	at := placeOfBudget(b)
	listed := listedBudget{Budget: b}
	if b.Each == rota.EachNone {
		listed.key = state.AccountKey(b.Name, "")
	}
	bd.at[at] = append(bd.at[at], listed)
	bd.shapes[at.shape()]++
	if b.Each == rota.EachWorkflow {
		at, _ := slices.BinarySearch(bd.ofFlows, b.Name) // in order: they emit events
		bd.ofFlows = slices.Insert(bd.ofFlows, at, b.Name)
	}
	if b.Then == rota.ThenRefuse {
		bd.refusing++
	}
	bd.keyring.lanes.All = true
}

func (bd *budgets) unlist(b *rota.Budget) {
	at := placeOfBudget(b)
	bd.at[at] = slices.DeleteFunc(bd.at[at], func(o listedBudget) bool { return o.Name == b.Name })
	if len(bd.at[at]) == 0 {
		delete(bd.at, at)
	}
	bd.shapes[at.shape()]--
	if b.Then == rota.ThenRefuse {
		bd.refusing--
	}
	bd.ofFlows = slices.DeleteFunc(bd.ofFlows, func(name rota.BudgetName) bool { return name == b.Name })
	bd.keyring.lanes.All = len(bd.at) > 0
	var asked []string
	bd.questions(b.Name, "", func(key string) bool {
		asked = append(asked, key)
		return true
	})
	for _, key := range asked {
		bd.asks.Delete(key)
	}
}

// edit returns the row of an account, editable.
func (bd *budgets) edit(h *budgetHold) *state.AccountRow {
	r := bd.accounts.Edit(h.key)
	if r == nil {
		r = bd.accounts.Fresh()
		r.Key, r.Budget, r.Of = h.key, h.budget.Name, h.of
		bd.accounts.Insert(h.key, r)
		bd.rowsOf[h.budget.Name]++
	}
	return r
}

// drop removes the row of an account.
func (bd *budgets) drop(r *state.AccountRow) {
	if bd.rowsOf[r.Budget]--; bd.rowsOf[r.Budget] == 0 {
		delete(bd.rowsOf, r.Budget)
	}
	bd.accounts.Drop(r.Key)
	bd.asks.Delete(r.Key)
}

// crowded reports whether a budget may not open another account.
func (bd *budgets) crowded(b rota.BudgetName, key string) bool {
	return (bd.rowsOf[b] >= limits.MaxBudgetAccounts || bd.accounts.Len() >= limits.MaxAllAccounts) &&
		bd.accounts.Get(key) == nil
}

// account returns an account.
func (bd *budgets) account(key string) (a state.Account) {
	if r := bd.accounts.Get(key); r != nil {
		a = r.Account
	}
	return a
}

// left returns the amount left of an account.
func (bd *budgets) left(b *rota.Budget, key string) int64 {
	a := bd.account(key)
	return a.Left(int64(b.Limit))
}

// charge returns the amount of an open attempt: the greater of its estimate and its report.
func charge(h *budgetHold, spent rota.Costs) int64 { return max(h.estimate, spent[h.budget.Unit]) }

// opened reserves the estimate of an attempt that starts.
func (bd *budgets) opened(id rota.JobID, s *rota.JobSpec) {
	var room [fewBudgets]budgetHold
	for _, h := range bd.of(id, s, room[:0]) {
		r := bd.edit(&h)
		r.Reserved = r.Reserved.Plus(state.Product(h.estimate, 1))
		bd.settle(&h)
	}
}

// closed books the use of an attempt that ends, and releases the rest of its charge. The account of a job or a workflow
// that ended before its attempt books nothing: it may belong to a retry by now.
func (bd *budgets) closed(l *state.LeaseRow, s *rota.JobSpec) {
	var room [fewBudgets]budgetHold
	for _, h := range bd.of(l.Job, s, room[:0]) {
		r := bd.edit(&h)
		r.Reserved = r.Reserved.Minus(state.Product(charge(&h, l.Spent), 1))
		if l.Ended == nil || !h.budget.Each.Ends() {
			r.Spent = r.Spent.Plus(state.Product(l.Used(h.budget.Unit, h.estimate), 1))
			if planted.booksTwice() && l.Acked.IsZero() {
				r.Spent = r.Spent.Plus(state.Product(l.Used(h.budget.Unit, h.estimate), 1))
			}
		}
		bd.settle(&h)
	}
}

// report replaces the charge of an open attempt by its report, where that is more.
func (bd *budgets) report(l *state.LeaseRow, s *rota.JobSpec, before rota.Costs) {
	var room [fewBudgets]budgetHold
	for _, h := range bd.of(l.Job, s, room[:0]) {
		if more := charge(&h, l.Spent) - charge(&h, before); more > 0 {
			r := bd.edit(&h)
			r.Reserved = r.Reserved.Plus(state.Product(more, 1))
			bd.settle(&h)
		}
	}
}

// stop interrupts an attempt that goes on after a report, if that brought a budget with Stop above its limit; l is
// editable.
func (bd *budgets) stop(l *state.LeaseRow, s *rota.JobSpec) {
	var room [fewBudgets]budgetHold
	for _, h := range bd.of(l.Job, s, room[:0]) {
		if h.budget.Stop && l.Spent[h.budget.Unit] > 0 && bd.left(h.budget, h.key) < 0 {
			bd.fleet.revoke(l, rota.ReasonBudgetSpent)
		}
	}
}

// ended forgets the accounts of a job that has ended, or has moved away from the queue of a budget.
func (bd *budgets) ended(id rota.JobID, s *rota.JobSpec, moved bool) {
	var room [fewBudgets]budgetHold
	for _, h := range bd.of(id, s, room[:0]) {
		if h.budget.Each == rota.EachJob && (!moved || h.budget.Queue != "") {
			bd.forget(h.budget, h.of)
		}
	}
}

// flowEnded forgets the accounts of a workflow that has ended.
func (bd *budgets) flowEnded(id rota.WorkflowID) {
	for _, name := range bd.ofFlows {
		bd.forget(bd.rows.Get(name).Spec, string(id))
	}
}

// forget forgets an account, except for the reservations of open attempts.
func (bd *budgets) forget(b *rota.Budget, of string) {
	r := bd.accounts.Edit(state.AccountKey(b.Name, of))
	if r == nil {
		return
	}
	r.Account = state.Account{Reserved: r.Reserved}
	bd.settle(hold(b, of))
}

// settle updates the lanes of an account after it or its QUEUED jobs changed, emits the events of the period, and drops
// an idle row.
func (bd *budgets) settle(h *budgetHold) {
	b, a := h.budget, bd.account(h.key)
	left := a.Left(int64(b.Limit))
	held := bd.refresh(b, h.key, left)
	spent := left <= 0 && !a.Full || held && !a.Short && !a.Full
	warned := b.WarnPermille > 0 && !a.Warned && a.Left(warnAt(b, a.Granted)) <= a.Granted
	if (spent || warned) && !bd.crowded(b.Name, h.key) {
		r := bd.edit(h)
		if spent {
			r.Full, r.Short = r.Full || left <= 0, r.Short || held
			bd.tell(rota.EventBudgetSpent, b, h.of, budgetEvent{Asks: b.Then == rota.ThenAsk})
		}
		if warned {
			r.Warned = true
			bd.tell(rota.EventBudgetWarned, b, h.of, budgetEvent{})
		}
	}
	if r := bd.accounts.Get(h.key); r != nil && r.Idle() {
		bd.drop(r)
	}
	bd.question(b, h.key, left, held)
}

// warnAt returns the amount of an account's limit, grants included, from which its event is due.
func warnAt(b *rota.Budget, granted int64) int64 {
	limit := int64(b.Limit) + granted
	return limit/1000*b.WarnPermille + limit%1000*b.WarnPermille/1000
}

// refuse refuses a job that a budget refuses at its limit, and one that would open an account too many.
func (bd *budgets) refuse(id rota.JobID, s *rota.JobSpec) error {
	var room [fewBudgets]budgetHold
	for _, h := range bd.of(id, s, room[:0]) {
		switch {
		case h.budget.Then == rota.ThenRefuse && bd.left(h.budget, h.key) < needs(h.estimate):
			return bd.refusal(&h)
		case bd.crowded(h.budget.Name, h.key):
			return exhausted("budget", "too many accounts of budgets are open: none is opened for %s",
				budgetText(h.budget, h.of))
		}
	}
	return nil
}

// refusal refuses a job. Waiting helps only if open attempts may release something: otherwise a grant does, or the next
// period, whose date the text has.
func (bd *budgets) refusal(h *budgetHold) error {
	err := exhausted("budget", "%s; a grant raises its limit", bd.text(h))
	if a := bd.account(h.key); a.Reserved.IsZero() {
		err.(*rota.Error).RetryAfter = 0
	}
	return err
}

// looks returns the number of nodes that refuseFlow looks at.
func (bd *budgets) looks(f *flow) int {
	if bd.refusing == 0 && bd.accounts.Len() < limits.MaxBudgetAccounts {
		return 0
	}
	return len(f.rows)
}

// refuseFlow refuses a workflow if a budget refuses one of its nodes as a job. Gates spend nothing.
func (bd *budgets) refuseFlow(f *flow) error {
	for _, v := range f.rows[:bd.looks(f)] {
		if v.Gate != nil {
			continue
		}
		if err := bd.refuse(v.Spec.ID, &v.Spec.JobSpec); err != nil {
			return ofNode(v.Number, state.VertexName(v), err)
		}
	}
	return nil
}

// shown returns a sum of amounts as it is displayed: at most 9·10¹² units.
func shown(sum state.Int128) rota.Cost { return rota.Cost(sum.Quotient(1, math.MaxInt64/4)) }

// budgetEvent is the payload of budgetWarned, budgetSpent, budgetGranted and budgetReset.
type budgetEvent struct {
	Budget rota.BudgetName `json:"budget"`
	Of     string          `json:"of,omitempty"`
	Unit   string          `json:"unit"`
	// Limit includes the grants of the period. Used is spent and reserved.
	Limit rota.Cost `json:"limit"`
	Used  rota.Cost `json:"used"`
	Asks  bool      `json:"asks,omitempty"`
	// Amount was granted.
	Amount rota.Cost `json:"amount,omitempty"`
	Why    string    `json:"why,omitempty"`
	// All reports that it is about all accounts; Since and Until are the period that begins.
	All   bool      `json:"all,omitempty"`
	Since rota.Date `json:"since_ms,omitempty"`
	Until rota.Date `json:"until_ms,omitempty"`
}

// tell emits an event about an account.
func (bd *budgets) tell(kind rota.EventKind, b *rota.Budget, of string, e budgetEvent) {
	a := bd.account(state.AccountKey(b.Name, of))
	e.Budget, e.Of, e.Unit, e.Limit = b.Name, of, b.Unit, b.Limit+rota.Cost(a.Granted)
	e.Used = rota.Cost(a.Spent.Plus(a.Reserved).Quotient(1, math.MaxInt64/4))
	tenant := b.Tenant
	if b.Each == rota.EachTenant && of != "" {
		tenant = rota.TenantID(of)
	}
	bd.s.Journal.Emit(rota.Event{Kind: kind, Queue: b.Queue, Tenant: tenant, Text: budgetText(b, of),
		Payload: state.Payload(e)})
}

// naming returns a budget of a queue, nil if it has none.
func (bd *budgets) naming(queue rota.QueueName) (b *rota.Budget) {
	bd.rows.Scan(func(_ rota.BudgetName, r *state.BudgetRow) bool {
		if r.Spec.Queue == queue {
			b = r.Spec
		}
		return b == nil
	})
	return b
}

// derive rebuilds everything outside the rows, before jobs are filed.
func (bd *budgets) derive() {
	bd.rows.Scan(func(_ rota.BudgetName, r *state.BudgetRow) bool {
		bd.list(r.Spec)
		return true
	})
	if len(bd.at) == 0 {
		return
	}
	bd.accounts.Scan(func(key string, r *state.AccountRow) bool {
		bd.rowsOf[r.Budget]++
		if b := bd.rows.Get(r.Budget); b != nil { // else Check refuses the state
			bd.question(b.Spec, key, r.Left(int64(b.Spec.Limit)), false)
		}
		return true
	})
	bd.s.JobTable.Scan(func(_ rota.JobID, j *state.JobRow) bool {
		if j.State == rota.JobQueued {
			bd.setQueued(j, true, false)
		}
		return true
	})
	bd.classes.Scan(func(c *budgetClass) bool {
		if c.full {
			bd.hold(c.account, true)
			bd.question(c.budget, c.account, 0, true)
		}
		return true
	})
}

// reserved returns the reservations of open attempts, by account.
func (bd *budgets) reserved(only func(*rota.Budget) bool) map[string]state.Int128 {
	sums := map[string]state.Int128{}
	bd.leasing.leases.Scan(func(_ string, l *state.LeaseRow) bool {
		for _, h := range bd.of(l.Job, bd.leasing.specOf(l), nil) {
			if only(h.budget) {
				sums[h.key] = sums[h.key].Plus(state.Product(charge(&h, l.Spent), 1))
			}
		}
		return true
	})
	return sums
}

// budgets checks accounts against the rows. Invariant I12.
func (c *checker) budgets() {
	bd := &c.m.budgets
	sums := bd.reserved(func(*rota.Budget) bool { return true })
	rowsOf, asks := map[rota.BudgetName]int{}, map[string]bool{}
	bd.accounts.Scan(func(key string, r *state.AccountRow) bool {
		b := bd.rows.Get(r.Budget)
		if rowsOf[r.Budget]++; b == nil || key != state.AccountKey(r.Budget, r.Of) || r.Idle() {
			c.fault("I12: account %q is idle, or of a budget that is not there", key)
			return true
		}
		if r.Reserved != sums[key] {
			c.fault("I12: account %q reserves %v, its leases %v", key, r.Reserved, sums[key])
		}
		delete(sums, key)
		if limit := int64(b.Spec.Limit); r.Left(limit) <= 0 && !r.Full {
			c.fault("I12: account %q has %d left, and no event reports it", key, r.Left(limit))
		}
		if b.Spec.Then == rota.ThenAsk && r.Left(int64(b.Spec.Limit)) <= 0 {
			asks[key] = true
		}
		return true
	})
	if !maps.Equal(rowsOf, bd.rowsOf) {
		c.fault("I12: budgets have %v accounts, %v are counted", rowsOf, bd.rowsOf)
	}
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		if !sums[key].IsZero() {
			c.fault("I12: account %q has no row and reserves %v", key, sums[key])
		}
	}
	bd.rows.Scan(func(name rota.BudgetName, r *state.BudgetRow) bool {
		if err := r.Spec.Check(); err != nil || r.Version > c.m.Header.Index || r.Until != 0 && r.Until <= r.Since {
			c.fault("I12: budget %s of version %d lasts from %d to %d: %v", name, r.Version, r.Since, r.Until, err)
		}
		if !slices.ContainsFunc(bd.at[placeOfBudget(r.Spec)], func(l listedBudget) bool { return l.Budget == r.Spec }) {
			c.fault("I12: budget %s is not found by its jobs", name)
		}
		return true
	})
	queued, jobs := map[string]int64{}, int64(0)
	c.m.JobTable.Scan(func(_ rota.JobID, j *state.JobRow) bool {
		if j.State == rota.JobQueued {
			for _, h := range bd.of(j.Spec.ID, &j.Spec.JobSpec, nil) {
				queued[string(h.appendClass(nil))]++
				jobs++
			}
		}
		return true
	})
	bd.classes.Scan(func(cl *budgetClass) bool {
		left := bd.left(cl.budget, cl.account)
		if _, held := bd.held[cl.account]; cl.full != cl.fills(left) || cl.full && !held ||
			bd.byName[cl.name] != cl || queued[cl.name] != cl.jobs || bd.rows.Get(cl.budget.Name).Spec != cl.budget {
			c.fault("I12: class %q of %d jobs, %d are QUEUED, is full: %v, with %d left", cl.name, cl.jobs,
				queued[cl.name], cl.full, left)
		}
		jobs -= cl.jobs
		if cl.full && cl.budget.Then == rota.ThenAsk {
			asks[cl.account] = true
		}
		return true
	})
	if listed := bd.asks.Keys(); !slices.Equal(listed, slices.Sorted(maps.Keys(asks))) {
		c.fault("I12: the accounts %q ask, listed are %q", slices.Sorted(maps.Keys(asks)), listed)
	}
	if jobs != 0 || bd.classes.Len() != len(bd.byName) || len(bd.held) > bd.classes.Len() {
		c.fault("I12: %d QUEUED jobs are in none of %d classes", jobs, bd.classes.Len())
	}
}
