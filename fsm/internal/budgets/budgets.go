package budgets

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
	"github.com/tidwall/btree"
)

// Budgets owns the budgets and their accounts (SPEC §30.5). Jobs without a budget cost only a lookup.
//
// QUEUED jobs of an account are filed by their estimates: those of one estimate are a class. A class that does not fit
// into the amount left is full, like a full count of a key: rounds look at none of its jobs, and smaller ones pass.
type Budgets struct {
	s           *state.State
	ports       Ports
	Rows        state.Table[rota.BudgetName, state.BudgetRow, *state.BudgetRow]
	AccountRows state.Table[string, state.AccountRow, *state.AccountRow]

	// The following fields are derived. at lists the budgets by where their jobs find them; shapes counts the places by
	// which of their three fields are set, as bits. flows are the budgets with an account for each workflow.
	at      map[place][]listed
	shapes  [8]int
	OfFlows []rota.BudgetName
	// refusing is the number of budgets that refuse submissions.
	refusing int
	// rowsOf counts the rows of accounts by budget.
	rowsOf map[rota.BudgetName]int
	// classes are those of QUEUED jobs by account and estimate; ByName finds them by the name of their lanes' count.
	classes *btree.BTreeG[*class]
	ByName  map[string]*class
	pivot   class // of a search in classes
	// held are the accounts with a full class. asks are the open questions: the accounts that ask, with nothing left or
	// with a full class.
	held map[string]bool
	asks btree.Set[string]
}

// Ports is what the budgets use of other parts.
type Ports struct {
	// Lanes are the counts of lanes that classes are full in; Pending returns the lanes of a job's queue.
	Lanes   *sched.Keys
	Pending func(*state.JobRow) *sched.Pending
	Leases  *state.Table[string, state.LeaseRow, *state.LeaseRow]
	// SpecOf returns the spec of a lease's job.
	SpecOf func(*state.LeaseRow) *rota.JobSpec
	// Revoke asks a worker to give a lease up.
	Revoke func(l *state.LeaseRow, why rota.Reason)
	// AdmitBytes refuses a number of bytes more if the state has no room for them.
	AdmitBytes func(q *state.QueueRow, tenant rota.TenantID, more int64) error
	// FlowLives reports whether a workflow exists and has not ended.
	FlowLives func(rota.WorkflowID) bool
	// SameZones refuses dates that were calculated with other time zones than the installed ones.
	SameZones func(name string) error
}

// Init connects the budgets to the state and the parts that they use.
func (bd *Budgets) Init(s *state.State, ports Ports) {
	bd.s, bd.ports = s, ports
	bd.Rows.Init(state.TagBudget, &s.Ledger)
	bd.AccountRows.Init(state.TagAccount, &s.Ledger)
	bd.AccountRows.Mutable, bd.AccountRows.Known = true, make(map[string]*state.AccountRow)
	bd.reset()
}

// listed is a budget as jobs find it. key is the AccountKey of its only account, "" if it has several.
type listed struct {
	*rota.Budget
	key string
}

// place is where jobs find a budget: the name of its key, its tenant and its queue, "" for any.
type place struct {
	key    string
	tenant rota.TenantID
	queue  rota.QueueName
}

func placeOf(b *rota.Budget) place { return place{b.KeyName(), b.Tenant, b.Queue} }

// shape returns which fields are set, as bits.
func (p place) shape() (bits int) {
	for i, set := range [...]bool{p.key != "", p.tenant != "", p.queue != ""} {
		if set {
			bits |= 1 << i
		}
	}
	return bits
}

// class is the QUEUED jobs of an account with the same estimate.
type class struct {
	Budget *rota.Budget
	// Account is the AccountKey, name that of the lanes' count.
	account, name string
	estimate      int64
	jobs          int64
	full          bool
}

func classLess(a, b *class) bool {
	if a.account != b.account { // mostly the same text in memory, so this is fast
		return a.account < b.account
	}
	return a.estimate < b.estimate
}

// needs returns the amount that must be left for a job of an estimate to start.
func needs(estimate int64) int64 { return max(1, estimate) }

// fills reports whether the jobs of the class may not start with an amount left.
func (c *class) fills(left int64) bool {
	return c.Budget.Then != rota.ThenWarn && left < needs(c.estimate)
}

// Hold is a budget that applies to a job: the job's account and its AccountKey, and its estimate in millionths.
type Hold struct {
	budget   *rota.Budget
	of, key  string
	estimate int64
}

// mark begins the names of the classes' counts; no count of a key begins with it.
const mark = "\x01"

// appendClass appends the name of the job's class.
func (h *Hold) appendClass(to []byte) []byte {
	to = append(append(append(to, mark...), h.key...), mark...)
	return strconv.AppendInt(to, h.estimate, 36)
}

// classOf returns the class of a job, nil if no job of it is QUEUED.
func (bd *Budgets) classOf(h *Hold) *class {
	var room [3 * rota.MaxIDBytes]byte
	return bd.ByName[string(h.appendClass(room[:0]))]
}

func (bd *Budgets) reset() {
	bd.at, bd.ByName = map[place][]listed{}, map[string]*class{}
	bd.shapes, bd.OfFlows, bd.rowsOf = [8]int{}, nil, map[rota.BudgetName]int{}
	bd.refusing = 0
	bd.held, bd.asks = map[string]bool{}, btree.Set[string]{}
	bd.classes = btree.NewBTreeGOptions(classLess, btree.Options{NoLocks: true})
}

// Of appends the budgets that apply to a job, by name.
func (bd *Budgets) Of(id rota.JobID, s *rota.JobSpec, to []Hold) []Hold {
	if len(bd.at) == 0 {
		return to
	}
	for shape, n := range bd.shapes {
		if n == 0 {
			continue
		}
		var at place
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
		slices.SortFunc(to, func(a, b Hold) int { return cmp.Compare(a.budget.Name, b.budget.Name) })
	}
	return to
}

func (bd *Budgets) find(at place, id rota.JobID, s *rota.JobSpec, to []Hold) []Hold {
	for _, b := range bd.at[at] {
		if of, ok := b.Account(id, s); ok {
			to = append(to, Hold{b.Budget, of, bd.keyOf(&b, of), b.Estimate(s)})
		}
	}
	return to
}

// keyOf returns the key of an account, without allocating a text if it is known.
func (bd *Budgets) keyOf(b *listed, of string) string {
	if b.key != "" {
		return b.key
	}
	var room [3 * rota.MaxIDBytes]byte
	key := append(append(append(room[:0], b.Name...), mark...), of...)
	if r := bd.AccountRows.Known[string(key)]; r != nil {
		return r.Key
	}
	return string(key)
}

// hold returns an account of a budget without a job.
func hold(b *rota.Budget, of string) *Hold {
	return &Hold{budget: b, of: of, key: state.AccountKey(b.Name, of)}
}

// fewHolds is how many budgets usually apply to a job at most.
const fewHolds = 4

// list makes a budget known to its jobs; unlist is its inverse.
func (bd *Budgets) list(b *rota.Budget) {
	at := placeOf(b)
	listed := listed{Budget: b}
	if b.Each == rota.EachNone {
		listed.key = state.AccountKey(b.Name, "")
	}
	bd.at[at] = append(bd.at[at], listed)
	bd.shapes[at.shape()]++
	if b.Each == rota.EachWorkflow {
		at, _ := slices.BinarySearch(bd.OfFlows, b.Name) // in order: they emit events
		bd.OfFlows = slices.Insert(bd.OfFlows, at, b.Name)
	}
	if b.Then == rota.ThenRefuse {
		bd.refusing++
	}
	bd.ports.Lanes.All = true
}

func (bd *Budgets) unlist(b *rota.Budget) {
	at := placeOf(b)
	bd.at[at] = slices.DeleteFunc(bd.at[at], func(o listed) bool { return o.Name == b.Name })
	if len(bd.at[at]) == 0 {
		delete(bd.at, at)
	}
	bd.shapes[at.shape()]--
	if b.Then == rota.ThenRefuse {
		bd.refusing--
	}
	bd.OfFlows = slices.DeleteFunc(bd.OfFlows, func(name rota.BudgetName) bool { return name == b.Name })
	bd.ports.Lanes.All = len(bd.at) > 0
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
func (bd *Budgets) edit(h *Hold) *state.AccountRow {
	r := bd.AccountRows.Edit(h.key)
	if r == nil {
		r = bd.AccountRows.Fresh()
		r.Key, r.Budget, r.Of = h.key, h.budget.Name, h.of
		bd.AccountRows.Insert(h.key, r)
		bd.rowsOf[h.budget.Name]++
	}
	return r
}

// drop removes the row of an account.
func (bd *Budgets) drop(r *state.AccountRow) {
	if bd.rowsOf[r.Budget]--; bd.rowsOf[r.Budget] == 0 {
		delete(bd.rowsOf, r.Budget)
	}
	bd.AccountRows.Drop(r.Key)
	bd.asks.Delete(r.Key)
}

// crowded reports whether a budget may not open another account.
func (bd *Budgets) crowded(b rota.BudgetName, key string) bool {
	return (bd.rowsOf[b] >= limits.MaxBudgetAccounts || bd.AccountRows.Len() >= limits.MaxAllAccounts) &&
		bd.AccountRows.Get(key) == nil
}

// Account returns an account.
func (bd *Budgets) Account(key string) (a state.Account) {
	if r := bd.AccountRows.Get(key); r != nil {
		a = r.Account
	}
	return a
}

// left returns the amount left of an account.
func (bd *Budgets) left(b *rota.Budget, key string) int64 {
	a := bd.Account(key)
	return a.Left(int64(b.Limit))
}

// charge returns the amount of an open attempt: the greater of its estimate and its report.
func charge(h *Hold, spent rota.Costs) int64 { return max(h.estimate, spent[h.budget.Unit]) }

// Opened reserves the estimate of an attempt that starts.
func (bd *Budgets) Opened(id rota.JobID, s *rota.JobSpec) {
	var room [fewHolds]Hold
	for _, h := range bd.Of(id, s, room[:0]) {
		r := bd.edit(&h)
		r.Reserved = r.Reserved.Plus(state.Product(h.estimate, 1))
		bd.settle(&h)
	}
}

// Closed books the use of an attempt that ends, and releases the rest of its charge. The account of a job or a workflow
// that ended before its attempt books nothing: it may belong to a retry by now.
func (bd *Budgets) Closed(l *state.LeaseRow, s *rota.JobSpec) {
	var room [fewHolds]Hold
	for _, h := range bd.Of(l.Job, s, room[:0]) {
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

// Report replaces the charge of an open attempt by its report, where that is more.
func (bd *Budgets) Report(l *state.LeaseRow, s *rota.JobSpec, before rota.Costs) {
	var room [fewHolds]Hold
	for _, h := range bd.Of(l.Job, s, room[:0]) {
		if more := charge(&h, l.Spent) - charge(&h, before); more > 0 {
			r := bd.edit(&h)
			r.Reserved = r.Reserved.Plus(state.Product(more, 1))
			bd.settle(&h)
		}
	}
}

// Stop interrupts an attempt that goes on after a report, if that brought a budget with Stop above its limit; l is
// editable.
func (bd *Budgets) Stop(l *state.LeaseRow, s *rota.JobSpec) {
	var room [fewHolds]Hold
	for _, h := range bd.Of(l.Job, s, room[:0]) {
		if h.budget.Stop && l.Spent[h.budget.Unit] > 0 && bd.left(h.budget, h.key) < 0 {
			bd.ports.Revoke(l, rota.ReasonBudgetSpent)
		}
	}
}

// Ended forgets the accounts of a job that has ended, or has moved away from the queue of a budget.
func (bd *Budgets) Ended(id rota.JobID, s *rota.JobSpec, moved bool) {
	var room [fewHolds]Hold
	for _, h := range bd.Of(id, s, room[:0]) {
		if h.budget.Each == rota.EachJob && (!moved || h.budget.Queue != "") {
			bd.forget(h.budget, h.of)
		}
	}
}

// FlowEnded forgets the accounts of a workflow that has ended.
func (bd *Budgets) FlowEnded(id rota.WorkflowID) {
	for _, name := range bd.OfFlows {
		bd.forget(bd.Rows.Get(name).Spec, string(id))
	}
}

// forget forgets an account, except for the reservations of open attempts.
func (bd *Budgets) forget(b *rota.Budget, of string) {
	r := bd.AccountRows.Edit(state.AccountKey(b.Name, of))
	if r == nil {
		return
	}
	r.Account = state.Account{Reserved: r.Reserved}
	bd.settle(hold(b, of))
}

// settle updates the lanes of an account after it or its QUEUED jobs changed, emits the events of the period, and drops
// an idle row.
func (bd *Budgets) settle(h *Hold) {
	b, a := h.budget, bd.Account(h.key)
	left := a.Left(int64(b.Limit))
	held := bd.refresh(b, h.key, left)
	spent := left <= 0 && !a.Full || held && !a.Short && !a.Full
	warned := b.WarnPermille > 0 && !a.Warned && a.Left(warnAt(b, a.Granted)) <= a.Granted
	if (spent || warned) && !bd.crowded(b.Name, h.key) {
		r := bd.edit(h)
		if spent {
			r.Full, r.Short = r.Full || left <= 0, r.Short || held
			bd.tell(rota.EventBudgetSpent, b, h.of, event{Asks: b.Then == rota.ThenAsk})
		}
		if warned {
			r.Warned = true
			bd.tell(rota.EventBudgetWarned, b, h.of, event{})
		}
	}
	if r := bd.AccountRows.Get(h.key); r != nil && r.Idle() {
		bd.drop(r)
	}
	bd.question(b, h.key, left, held)
}

// warnAt returns the amount of an account's limit, grants included, from which its event is due.
func warnAt(b *rota.Budget, granted int64) int64 {
	limit := int64(b.Limit) + granted
	return limit/1000*b.WarnPermille + limit%1000*b.WarnPermille/1000
}

// Refuse refuses a job that a budget refuses at its limit, and one that would open an account too many.
func (bd *Budgets) Refuse(id rota.JobID, s *rota.JobSpec) error {
	var room [fewHolds]Hold
	for _, h := range bd.Of(id, s, room[:0]) {
		switch {
		case h.budget.Then == rota.ThenRefuse && bd.left(h.budget, h.key) < needs(h.estimate):
			return bd.refusal(&h)
		case bd.crowded(h.budget.Name, h.key):
			return refuse.Exhausted("budget", "too many accounts of budgets are open: none is opened for %s",
				textOf(h.budget, h.of))
		}
	}
	return nil
}

// refusal refuses a job. Waiting helps only if open attempts may release something: otherwise a grant does, or the next
// period, whose date the text has.
func (bd *Budgets) refusal(h *Hold) error {
	err := refuse.Exhausted("budget", "%s; a grant raises its limit", bd.text(h))
	if a := bd.Account(h.key); a.Reserved.IsZero() {
		err.(*rota.Error).RetryAfter = 0
	}
	return err
}

// Shown returns a sum of amounts as it is displayed: at most 9·10¹² units.
func Shown(sum state.Int128) rota.Cost { return rota.Cost(sum.Quotient(1, math.MaxInt64/4)) }

// event is the payload of budgetWarned, budgetSpent, budgetGranted and budgetReset.
type event struct {
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
func (bd *Budgets) tell(kind rota.EventKind, b *rota.Budget, of string, e event) {
	a := bd.Account(state.AccountKey(b.Name, of))
	e.Budget, e.Of, e.Unit, e.Limit = b.Name, of, b.Unit, b.Limit+rota.Cost(a.Granted)
	e.Used = rota.Cost(a.Spent.Plus(a.Reserved).Quotient(1, math.MaxInt64/4))
	tenant := b.Tenant
	if b.Each == rota.EachTenant && of != "" {
		tenant = rota.TenantID(of)
	}
	bd.s.Journal.Emit(rota.Event{Kind: kind, Queue: b.Queue, Tenant: tenant, Text: textOf(b, of),
		Payload: state.Payload(e)})
}

// Naming returns a budget of a queue, nil if it has none.
func (bd *Budgets) Naming(queue rota.QueueName) (b *rota.Budget) {
	bd.Rows.Scan(func(_ rota.BudgetName, r *state.BudgetRow) bool {
		if r.Spec.Queue == queue {
			b = r.Spec
		}
		return b == nil
	})
	return b
}

// Derive rebuilds everything outside the rows, before jobs are filed.
func (bd *Budgets) Derive() {
	bd.Rows.Scan(func(_ rota.BudgetName, r *state.BudgetRow) bool {
		bd.list(r.Spec)
		return true
	})
	if len(bd.at) == 0 {
		return
	}
	bd.AccountRows.Scan(func(key string, r *state.AccountRow) bool {
		bd.rowsOf[r.Budget]++
		if b := bd.Rows.Get(r.Budget); b != nil { // else Check refuses the state
			bd.question(b.Spec, key, r.Left(int64(b.Spec.Limit)), false)
		}
		return true
	})
	bd.s.JobTable.Scan(func(_ rota.JobID, j *state.JobRow) bool {
		if j.State == rota.JobQueued {
			bd.SetQueued(j, true, false)
		}
		return true
	})
	bd.classes.Scan(func(c *class) bool {
		if c.full {
			bd.hold(c.account, true)
			bd.question(c.Budget, c.account, 0, true)
		}
		return true
	})
}

// reserved returns the reservations of open attempts, by account.
func (bd *Budgets) reserved(only func(*rota.Budget) bool) map[string]state.Int128 {
	sums := map[string]state.Int128{}
	bd.ports.Leases.Scan(func(_ string, l *state.LeaseRow) bool {
		for _, h := range bd.Of(l.Job, bd.ports.SpecOf(l), nil) {
			if only(h.budget) {
				sums[h.key] = sums[h.key].Plus(state.Product(charge(&h, l.Spent), 1))
			}
		}
		return true
	})
	return sums
}

// Check checks accounts against the rows. Invariant I12.
func (bd *Budgets) Check(fault func(format string, args ...any)) {
	sums := bd.reserved(func(*rota.Budget) bool { return true })
	rowsOf, asks := map[rota.BudgetName]int{}, map[string]bool{}
	bd.AccountRows.Scan(func(key string, r *state.AccountRow) bool {
		b := bd.Rows.Get(r.Budget)
		if rowsOf[r.Budget]++; b == nil || key != state.AccountKey(r.Budget, r.Of) || r.Idle() {
			fault("I12: account %q is idle, or of a budget that is not there", key)
			return true
		}
		if r.Reserved != sums[key] {
			fault("I12: account %q reserves %v, its leases %v", key, r.Reserved, sums[key])
		}
		delete(sums, key)
		if limit := int64(b.Spec.Limit); r.Left(limit) <= 0 && !r.Full {
			fault("I12: account %q has %d left, and no event reports it", key, r.Left(limit))
		}
		if b.Spec.Then == rota.ThenAsk && r.Left(int64(b.Spec.Limit)) <= 0 {
			asks[key] = true
		}
		return true
	})
	if !maps.Equal(rowsOf, bd.rowsOf) {
		fault("I12: budgets have %v accounts, %v are counted", rowsOf, bd.rowsOf)
	}
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		if !sums[key].IsZero() {
			fault("I12: account %q has no row and reserves %v", key, sums[key])
		}
	}
	bd.Rows.Scan(func(name rota.BudgetName, r *state.BudgetRow) bool {
		if err := r.Spec.Check(); err != nil || r.Version > bd.s.Header.Index || r.Until != 0 && r.Until <= r.Since {
			fault("I12: budget %s of version %d lasts from %d to %d: %v", name, r.Version, r.Since, r.Until, err)
		}
		if !slices.ContainsFunc(bd.at[placeOf(r.Spec)], func(l listed) bool { return l.Budget == r.Spec }) {
			fault("I12: budget %s is not found by its jobs", name)
		}
		return true
	})
	queued, jobs := map[string]int64{}, int64(0)
	bd.s.JobTable.Scan(func(_ rota.JobID, j *state.JobRow) bool {
		if j.State == rota.JobQueued {
			for _, h := range bd.Of(j.Spec.ID, &j.Spec.JobSpec, nil) {
				queued[string(h.appendClass(nil))]++
				jobs++
			}
		}
		return true
	})
	bd.classes.Scan(func(cl *class) bool {
		left := bd.left(cl.Budget, cl.account)
		if _, held := bd.held[cl.account]; cl.full != cl.fills(left) || cl.full && !held ||
			bd.ByName[cl.name] != cl || queued[cl.name] != cl.jobs || bd.Rows.Get(cl.Budget.Name).Spec != cl.Budget {
			fault("I12: class %q of %d jobs, %d are QUEUED, is full: %v, with %d left", cl.name, cl.jobs,
				queued[cl.name], cl.full, left)
		}
		jobs -= cl.jobs
		if cl.full && cl.Budget.Then == rota.ThenAsk {
			asks[cl.account] = true
		}
		return true
	})
	if listed := bd.asks.Keys(); !slices.Equal(listed, slices.Sorted(maps.Keys(asks))) {
		fault("I12: the accounts %q ask, listed are %q", slices.Sorted(maps.Keys(asks)), listed)
	}
	if jobs != 0 || bd.classes.Len() != len(bd.ByName) || len(bd.held) > bd.classes.Len() {
		fault("I12: %d QUEUED jobs are in none of %d classes", jobs, bd.classes.Len())
	}
}

// Refuses reports whether a budget may refuse a job: one refuses at its limit, or there are too many accounts.
func (bd *Budgets) Refuses() bool {
	return bd.refusing > 0 || bd.AccountRows.Len() >= limits.MaxBudgetAccounts
}
