package keys

import (
	"fmt"
	"math"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
	"github.com/tidwall/btree"
)

// Keyring applies the rules of keys to jobs (SPEC §19). Jobs without keys, and keys without rules, cost only a lookup.
type Keyring struct {
	s         *state.State
	ports     Ports
	Rules     state.Table[string, state.KeyRuleRow, *state.KeyRuleRow]
	CountRows state.Table[string, state.KeyCountRow, *state.KeyCountRow]
	Charges   state.Table[string, state.ChargeRow, *state.ChargeRow]

	// The following fields are derived. byName indexes the rules; names holds what exists per name.
	byName map[keyRuleID]*state.KeyRuleRow
	names  map[string]*keyName
	// Groups are the rules by which keys of a queue take turns. Restoring reports that jobs are filed at their previous
	// places and no key starts to wait again.
	Groups    map[rota.QueueName]*state.KeyRuleRow
	Restoring bool
	// line holds the jobs of sequences in the order of their places.
	line *btree.BTreeG[state.KeyPlace]
	// blocks are the counts that an ended job blocks.
	blocks map[rota.JobID][]string
	Lanes  *sched.Keys
	// queuedCosts counts QUEUED jobs by the counts whose rates weigh them, and by estimate; units is the number of
	// rules with a unit or RefuseFull.
	queuedCosts *btree.BTreeG[queuedCost]
	// spans compose the charges of the counts for which that was asked.
	spans state.ChargeSpans
	// stopped holds the counts that are paused, or whose breaker is open or probing.
	stopped btree.Set[string]
	// queued has how many QUEUED jobs a count has, and their estimates, where its rule refuses more than may start.
	queued map[string]queuedSum
	units  int
}

// Ports is what the keyring uses of other parts.
type Ports struct {
	// AdmitBytes refuses a number of bytes more if the state has no room for them.
	AdmitBytes func(q *state.QueueRow, tenant rota.TenantID, more int64) error
	Tombs      *state.Tombs
	// Lanes returns the lanes of a queue; Refile builds them again.
	Lanes  func(queue rota.QueueName) *sched.Pending
	Refile func(queue rota.QueueName)
	// Outlived visits the leases whose jobs have ended.
	Outlived func(visit func(*state.LeaseRow))
	// Budgets also block jobs: see the methods of the same names.
	Budgets BudgetPorts
}

// BudgetPorts is what the keyring uses of budgets, whose classes of jobs are counts of lanes too.
type BudgetPorts struct {
	Counts func(id rota.JobID, s *rota.JobSpec, to []string) []string
	Full   func(count string) (full, known bool)
	Holds  func(j *state.JobRow) bool
}

// Init connects the keyring to the state and the parts that it uses.
func (kr *Keyring) Init(s *state.State, ports Ports) {
	kr.s, kr.ports = s, ports
	l := &s.Ledger
	kr.Rules.Init(state.TagKeyRule, l)
	kr.CountRows.Init(state.TagKeyCount, l)
	kr.Charges.Init(state.TagKeyCharge, l)
	kr.CountRows.Mutable, kr.Charges.Mutable = true, true
	kr.CountRows.Known = make(map[string]*state.KeyCountRow)
	kr.reset()
}

type keyRuleID struct {
	queue       rota.QueueName
	name, value string
}

func idOfRule(r *rota.KeyRule) keyRuleID { return keyRuleID{r.Queue, r.Name, r.Value} }

// covers reports whether the rule may apply to a key of a queue's count.
func (id keyRuleID) covers(queue rota.QueueName, key string) bool {
	name, value, _ := strings.Cut(key, ":")
	return queue == id.queue && name == id.name && (id.value == "" || value == id.value)
}

// keyName is the data about a key name that a lookup needs without visiting each rule.
type keyName struct {
	// Rules have the name; valued of them are for one value.
	rules, valued int
	// whole are the rules for every value, by queue.
	whole map[rota.QueueName]*state.KeyRuleRow
}

// keyHold is a key of a job and the rule for it.
type keyHold struct {
	count  string
	tenant rota.TenantID
	key    string
	rule   *state.KeyRuleRow
}

func (kr *Keyring) reset() {
	kr.byName, kr.names = map[keyRuleID]*state.KeyRuleRow{}, map[string]*keyName{}
	kr.units, kr.queued, kr.stopped = 0, map[string]queuedSum{}, btree.Set[string]{}
	kr.spans = state.ChargeSpans{}
	kr.Groups, kr.Restoring = map[rota.QueueName]*state.KeyRuleRow{}, false
	kr.line = btree.NewBTreeGOptions(keyPlaceLess, btree.Options{NoLocks: true})
	kr.blocks = map[rota.JobID][]string{}
	kr.Lanes = sched.NewKeys(kr)
	kr.queuedCosts = btree.NewBTreeGOptions(queuedCost.less, btree.Options{NoLocks: true})
}

// of appends the rules that apply to a job's keys: for each key the rule of its queue, then the rule of all queues.
func (kr *Keyring) of(s *rota.JobSpec, to []keyHold) []keyHold {
	if len(s.Keys) == 0 || len(kr.names) == 0 {
		return to
	}
	for _, key := range s.Keys {
		name, value, _ := strings.Cut(key, ":")
		n := kr.names[name]
		if n == nil {
			continue
		}
		for _, queue := range [...]rota.QueueName{s.Queue, ""} {
			r := n.rule(kr.byName, keyRuleID{queue, name, value})
			if r == nil {
				continue
			}
			tenant := s.Tenant
			if r.Scope == rota.KeyOfCluster {
				tenant = ""
			}
			to = append(to, keyHold{kr.countKey(queue, tenant, key), tenant, key, r})
		}
	}
	return to
}

// countKey is KeyCountKey, without allocating a text if the key is counted.
func (kr *Keyring) countKey(queue rota.QueueName, tenant rota.TenantID, text string) string {
	var room [3 * rota.MaxIDBytes]byte
	key := append(append(append(append(append(room[:0], queue...), '/'), tenant...), '/'), text...)
	if c := kr.CountRows.Known[string(key)]; c != nil {
		return c.Key
	}
	return string(key)
}

// maxKeyHolds is the maximum number of rules that may apply to a job.
const maxKeyHolds = 2 * rota.MaxKeys

// rule returns the rule for a value, or that of its name.
func (kr *Keyring) rule(queue rota.QueueName, name, value string) *state.KeyRuleRow {
	if n := kr.names[name]; n != nil {
		return n.rule(kr.byName, keyRuleID{queue, name, value})
	}
	return nil
}

// rule returns the rule for a value of the name, or that of the name.
func (n *keyName) rule(valued map[keyRuleID]*state.KeyRuleRow, id keyRuleID) *state.KeyRuleRow {
	if n.valued > 0 {
		if r := valued[id]; r != nil {
			return r
		}
	}
	return n.whole[id.queue]
}

// RuleOf returns the rule of a count, nil if it no longer exists.
func (kr *Keyring) RuleOf(c *state.KeyCountRow) *state.KeyRuleRow {
	name, value, _ := strings.Cut(c.Text, ":")
	return kr.rule(c.Queue, name, value)
}

// Admit refuses a job whose keys would exceed the limit of counted keys.
func (kr *Keyring) Admit(s *rota.JobSpec) error {
	var room [maxKeyHolds]keyHold
	fresh := 0
	for _, h := range kr.of(s, room[:0]) {
		if kr.CountRows.Get(h.count) == nil {
			fresh++
		}
	}
	if fresh > 0 && kr.CountRows.Len()+fresh > limits.MaxKeyCounts {
		return refuse.Exhausted("keys", "%d keys are counted: at most %d are, and job %s brings %d more",
			kr.CountRows.Len(),
			limits.MaxKeyCounts, s.ID, fresh)
	}
	return nil
}

// Enter counts a job that becomes live, before it is filed.
func (kr *Keyring) Enter(j *state.JobRow) {
	var room [maxKeyHolds]keyHold
	for _, h := range kr.of(&j.Spec.JobSpec, room[:0]) {
		c := kr.counted(&h)
		if kr.stand(c, &h, j); stopDue(c) != c.Due && !c.Breaker.Idle() {
			kr.settle(c, h.rule) // it has jobs, so the outcomes are kept
		}
	}
}

// counted returns the row of a count, editable.
func (kr *Keyring) counted(h *keyHold) *state.KeyCountRow {
	c := kr.CountRows.Edit(h.count)
	if c == nil {
		c = kr.CountRows.Fresh()
		c.Key, c.Queue, c.Tenant, c.Text = h.count, h.rule.Queue, h.tenant, h.key
		kr.CountRows.Insert(h.count, c)
	}
	return c
}

// stand counts a job in, at its place if there is a sequence.
func (kr *Keyring) stand(c *state.KeyCountRow, h *keyHold, j *state.JobRow) {
	c.Jobs++
	if h.rule.Sequence == rota.SequenceNone {
		return
	}
	before := kr.turnOf(c)
	kr.line.Set(state.KeyPlace{Count: c.Key, Place: c.PlaceOf(j), Job: j.Spec.ID})
	kr.turned(c, before)
}

// Leave counts out a job that is no longer live, and lets the next in its sequences have their turn.
func (kr *Keyring) Leave(j *state.JobRow, state rota.JobState) {
	var room [maxKeyHolds]keyHold
	for _, h := range kr.of(&j.Spec.JobSpec, room[:0]) {
		c := kr.CountRows.Edit(h.count)
		c.Jobs--
		if h.rule.Sequence != rota.SequenceNone {
			kr.pass(c, h.rule, j, state)
		}
		kr.settle(c, h.rule)
	}
}

// Opened adds by to the open leases of the counts of a lease's job. A lease that ends does so for a reason.
func (kr *Keyring) Opened(l *state.LeaseRow, s *rota.JobSpec, by int64, why rota.Reason) {
	var room [maxKeyHolds]keyHold
	for _, h := range kr.of(s, room[:0]) {
		c := kr.CountRows.Edit(h.count)
		c.Open += by
		switch {
		case by < 0:
			kr.judge(c, h.rule, l, why)
		case c.Breaker.State == rota.BreakerProbing:
			c.Breaker.Probing++
		}
		switch {
		case h.rule.Rate == 0:
		case h.rule.Unit != "" && by > 0:
			kr.Charge(c, h.rule, l.Token.Counter, h.rule.CostOf(s))
		case h.rule.Unit != "":
			kr.SettleCharge(c, h.rule, l)
		case by > 0:
			c.Tat = h.rule.Bucket().Take(c.Tat, kr.s.Header.Clock)
		}
		kr.settle(c, h.rule)
	}
}

// Left returns how many more jobs of a count may be assigned now.
func (kr *Keyring) Left(c *state.KeyCountRow, r *state.KeyRuleRow) int64 {
	left := kr.withinLimits(c, r)
	if c.Breaker.State == rota.BreakerProbing {
		_, probes := c.Stopped(r)
		left = min(left, probes)
	}
	return left
}

// withinLimits is left, except for what stops the count.
func (kr *Keyring) withinLimits(c *state.KeyCountRow, r *state.KeyRuleRow) int64 {
	left := int64(math.MaxInt64)
	if r.Concurrency > 0 {
		left = r.Concurrency - c.Open
	}
	if r.Sequence != rota.SequenceNone {
		left = min(left, 1-c.Open)
	}
	if r.Rate > 0 && r.Unit == "" {
		left = min(left, r.Bucket().Tokens(c.Tat, kr.s.Header.Clock))
	}
	return max(0, left)
}

// Full reports whether no job of a count may be assigned now.
func (kr *Keyring) full(c *state.KeyCountRow, r *state.KeyRuleRow) bool {
	stopped, _ := c.Stopped(r)
	return stopped || kr.Left(c, r) == 0 || kr.AmountLeft(c, r) <= 0
}

// settle updates a count after its jobs, leases, tokens or rule changed; c is editable, and r is its rule, nil if it no
// longer exists.
func (kr *Keyring) settle(c *state.KeyCountRow, r *state.KeyRuleRow) {
	if r == nil || r.Rate == 0 || r.Unit != "" || state.Ahead(c.Tat, kr.s.Header.Clock) == 0 {
		c.Tat = 0
	}
	if r != nil && r.Unit != "" && c.Debt.Charges == 0 && kr.Owed(c, r).IsZero() {
		c.Debt = state.Debt{}
	}
	if r != nil {
		kr.advanceStops(c, r)
	}
	if r == nil || c.Idle() {
		kr.drop(c)
		return
	}
	kr.noteStop(c)
	if full := kr.full(c, r); full != c.Full {
		c.Full = full
		kr.Lanes.SetFull(c.Key, full)
	}
	due := kr.Due(c, r)
	kr.s.Timers.Key.Refile(c.Key, int64(c.Due), int64(due))
	c.Due = due
}

func (kr *Keyring) drop(c *state.KeyCountRow) {
	if c.Pause.On {
		kr.tellStop(rota.EventKeyResumed, c, "its rule counts it no longer")
	}
	if c.Breaker.State != rota.BreakerClosed {
		kr.tellStop(rota.EventKeyClosed, c, "its rule counts it no longer")
	}
	kr.stopped.Delete(c.Key)
	kr.unblock(c)
	kr.dropDebt(c)
	kr.s.Timers.Key.Refile(c.Key, int64(c.Due), 0)
	kr.CountRows.Drop(c.Key)
}

// Due returns when a count must be reviewed: when a token that its jobs wait for is back, or all are, and when a pause
// or a breaker's time ends.
func (kr *Keyring) Due(c *state.KeyCountRow, r *state.KeyRuleRow) rota.Clock {
	return state.Sooner(stopDue(c), kr.rateDue(c, r))
}

func (kr *Keyring) rateDue(c *state.KeyCountRow, r *state.KeyRuleRow) rota.Clock {
	stopped, _ := c.Stopped(r)
	switch {
	case r.Unit != "":
		return kr.repaidAt(c, r)
	case c.Tat == 0:
		return 0
	case c.Full && !stopped && !r.Taken(c):
		return r.Bucket().NextToken(c.Tat, kr.s.Header.Clock)
	}
	return state.Moment(c.Tat, kr.s.Header.Clock)
}

// Fire reviews a count whose tokens are back.
func (kr *Keyring) Fire(key string) {
	c := kr.CountRows.Edit(key)
	kr.settle(c, kr.RuleOf(c))
}

// Counts implements sched.Keyring.
func (kr *Keyring) Counts(it *sched.Item, to []string) (counts []string, ok bool) {
	var room [maxKeyHolds]keyHold
	for _, h := range kr.of(it.JobSpec, room[:0]) {
		if h.rule.Sequence != rota.SequenceNone && kr.turnOf(kr.CountRows.Get(h.count)) != it.ID {
			return nil, false
		}
		to = append(to, h.count)
	}
	return kr.ports.Budgets.Counts(it.ID, it.JobSpec, to), true
}

// Full implements sched.Keyring.
func (kr *Keyring) Full(count string) bool {
	if full, known := kr.ports.Budgets.Full(count); known {
		return full
	}
	return kr.CountRows.Get(count).Full
}

// Holds reports whether a QUEUED job waits for one of its keys.
func (kr *Keyring) Holds(j *state.JobRow) bool {
	var room [maxKeyHolds]keyHold
	for _, h := range kr.of(&j.Spec.JobSpec, room[:0]) {
		if c := kr.CountRows.Get(h.count); c.Full || h.rule.Sequence != rota.SequenceNone && kr.turnOf(c) != j.Spec.ID {
			return true
		}
	}
	return kr.ports.Budgets.Holds(j)
}

// Obstacles calls note with each reason why one of a job's keys blocks it, until note returns false. It reports whether
// note returned true each time.
func (kr *Keyring) Obstacles(j *state.JobRow, note func(reason, detail string) bool) bool {
	var room [maxKeyHolds]keyHold
	for _, h := range kr.of(&j.Spec.JobSpec, room[:0]) {
		c := kr.CountRows.Get(h.count)
		if h.rule.Sequence != rota.SequenceNone {
			if reason, detail := kr.outOfTurn(c, j); reason != "" && !note(reason, detail) {
				return false
			}
		}
		if !c.Full {
			continue
		}
		if !kr.stops(c, &h, note) {
			return false
		}
		if stopped, _ := c.Stopped(h.rule); stopped && kr.withinLimits(c, h.rule) > 0 && kr.AmountLeft(c, h.rule) > 0 {
			continue
		}
		reason, detail := "KEY_AT_LIMIT", fmt.Sprintf("key %s has %d leases open, concurrency is %d", c.Text, c.Open,
			h.rule.Concurrency)
		switch {
		case h.rule.Concurrency > 0 && c.Open >= h.rule.Concurrency:
		case h.rule.Sequence != rota.SequenceNone && c.Open > 0:
			detail = fmt.Sprintf("key %s runs one job at a time, and one has a lease", c.Text)
		case h.rule.Unit != "":
			reason, detail = "KEY_RATE", kr.rateText(c, h.rule)
		default:
			reason, detail = "KEY_RATE", fmt.Sprintf("key %s may have %d jobs assigned in %d ms, the next one at %s",
				c.Text, h.rule.Rate,
				h.rule.PeriodMs, kr.s.Header.Now().At(h.rule.Bucket().NextToken(c.Tat, kr.s.Header.Clock)).Date)
		}
		if !note(reason, detail) {
			return false
		}
	}
	return true
}

func (kr *Keyring) put(id keyRuleID, to *rota.KeyRule) {
	key := state.KeyRuleKey(id.queue, id.name, id.value)
	r := &state.KeyRuleRow{Key: key}
	if old := kr.byName[id]; old != nil {
		if to != nil && to.Group {
			r.Turn, r.Last = old.Turn, old.Last
		}
		kr.Rules.Drop(key)
		kr.unlist(id)
	}
	if to == nil {
		return
	}
	r.KeyRule = *to
	kr.Rules.Insert(key, r)
	kr.list(r)
}

func (kr *Keyring) list(r *state.KeyRuleRow) {
	n := kr.names[r.Name]
	if n == nil {
		n = &keyName{whole: map[rota.QueueName]*state.KeyRuleRow{}}
		kr.names[r.Name] = n
	}
	if r.Unit != "" || r.RefuseFull {
		kr.units++
	}
	n.rules++
	if r.Value != "" {
		n.valued++
	}
	kr.know(r)
}

// know registers a rule, or its copy, for lookups.
func (kr *Keyring) know(r *state.KeyRuleRow) {
	kr.byName[idOfRule(&r.KeyRule)] = r
	if r.Value == "" {
		kr.names[r.Name].whole[r.Queue] = r
	}
	if r.Group {
		kr.Groups[r.Queue] = r
	}
}

func (kr *Keyring) unlist(id keyRuleID) {
	if g := kr.Groups[id.queue]; g != nil && idOfRule(&g.KeyRule) == id {
		delete(kr.Groups, id.queue)
	}
	if r := kr.byName[id]; r.Unit != "" || r.RefuseFull {
		kr.units--
	}
	delete(kr.byName, id)
	n := kr.names[id.name]
	if id.value != "" {
		n.valued--
	} else {
		delete(n.whole, id.queue)
	}
	if n.rules--; n.rules == 0 {
		delete(kr.names, id.name)
	}
}

// Pending returns the lanes of a job's queue.
func (kr *Keyring) Pending(j *state.JobRow) *sched.Pending {
	return kr.ports.Lanes(j.Spec.Queue)
}

// Naming returns a rule of a queue, nil if it has none.
func (kr *Keyring) Naming(queue rota.QueueName) *state.KeyRuleRow {
	if keys := state.KeysUnder(&kr.Rules, string(queue)+"/"); len(keys) > 0 {
		return kr.Rules.Get(keys[0])
	}
	return nil
}

// ForgetTenant drops the counts of a tenant without live jobs.
func (kr *Keyring) ForgetTenant(id rota.TenantID) {
	var keys []string
	kr.CountRows.Scan(func(key string, c *state.KeyCountRow) bool {
		if c.Tenant == id {
			keys = append(keys, key)
		}
		return true
	})
	for _, key := range keys {
		kr.drop(kr.CountRows.Edit(key))
	}
}

// RuleNamed returns the rule with exactly this name and value, nil if there is none.
func (kr *Keyring) RuleNamed(queue rota.QueueName, name, value string) *state.KeyRuleRow {
	return kr.byName[keyRuleID{queue, name, value}]
}
