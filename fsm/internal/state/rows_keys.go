package state

import (
	"math"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/millis"
)

// KeyRuleRow holds the limits of the jobs of a key (SPEC §19.1).
type KeyRuleRow struct {
	RowMeta
	// Key is the keyRuleKey, the key of the row.
	Key string
	rota.KeyRule
	// Turn is the number of turns of the jobs that name no key, under a rule with Group; last is the latest turn.
	Turn, Last int64
}

// KeyRuleKey returns the tree key of a rule: queue, name and value.
func KeyRuleKey(queue rota.QueueName, name, value string) string {
	return string(queue) + "/" + name + ":" + value
}

// TreeKey returns the row's key in its table.
func (r *KeyRuleRow) TreeKey() string { return r.Key }

// ETag returns the version of a rule.
func (r *KeyRuleRow) ETag() string {
	return EtagOf(func(e *Encoder) {
		e.Uint(uint64(r.Scope))
		for _, v := range []int64{r.Concurrency, r.Rate, r.PeriodMs, r.Burst} {
			e.Int(v)
		}
		e.Uint(uint64(r.Sequence))
		e.Bool(r.Group)
		if r.Unit != "" {
			e.Str(r.Unit)
			e.Int(int64(r.DefaultCost))
		}
		r.laterRule(e)
	})
}

// Canonical appends the canonical form for digests and snapshots.
func (r *KeyRuleRow) Canonical(e *Encoder) {
	e.Str(string(r.Queue))
	e.Str(r.Name)
	e.Str(r.Value)
	e.Uint(uint64(r.Scope))
	e.Int(r.Concurrency)
	e.Int(r.Rate)
	e.Int(r.PeriodMs)
	e.Int(r.Burst)
	e.Uint(uint64(r.Sequence))
	e.Bool(r.Group)
	e.Int(r.Turn)
	e.Int(r.Last)
	later := r.RefuseFull || r.Breaker.Trip != 0
	if r.Unit != "" || later { // never under rules version 1
		e.Str(r.Unit)
		e.Int(int64(r.DefaultCost))
	}
	r.laterRule(e)
}

// laterRule appends what a rule has besides limits.
func (r *KeyRuleRow) laterRule(e *Encoder) {
	if b := &r.Breaker; r.RefuseFull || b.Trip != 0 {
		e.Bool(r.RefuseFull)
		for _, v := range []int64{b.Trip, b.Of, b.OpenMs, b.Probes} {
			e.Int(v)
		}
		e.Uint(uint64(b.Reasons))
	}
}

// DecodeKeyRule reads what Canonical wrote.
func DecodeKeyRule(d *Decoder) *KeyRuleRow {
	r := &KeyRuleRow{KeyRule: rota.KeyRule{Queue: rota.QueueName(d.Str()), Name: d.Str(), Value: d.Str(),
		Scope: rota.KeyScope(d.Enum(uint64(rota.KeyOfCluster))), Concurrency: d.Int(), Rate: d.Int(), PeriodMs: d.Int(),
		Burst:    d.Int(),
		Sequence: rota.KeySequence(d.Enum(uint64(rota.SequenceSkip))), Group: d.Bool()}, Turn: d.Int(), Last: d.Int()}
	if len(d.B) > 0 {
		r.Unit, r.DefaultCost = d.Str(), rota.Cost(d.Int())
		if len(d.B) > 0 {
			r.RefuseFull = d.Bool()
			r.Breaker = rota.KeyBreaker{Trip: d.Int(), Of: d.Int(), OpenMs: d.Int(), Probes: d.Int(),
				Reasons: rota.Reasons(d.Uint())}
		}
		if r.Unit == "" && !r.RefuseFull && r.Breaker.Trip == 0 {
			d.Fail()
		}
	}
	r.Key = KeyRuleKey(r.Queue, r.Name, r.Value)
	return r
}

// KeyCountRow counts the jobs of a key with a rule. The row exists while the key has jobs, while tokens of its rate are
// in use, and while its sequence is blocked.
type KeyCountRow struct {
	RowMeta
	// Key is the keyCountKey, the key of the row.
	Key    string
	Queue  rota.QueueName
	Tenant rota.TenantID
	// Text is the jobs' key.
	Text string
	// Jobs counts the live jobs, open those with a lease. Invariant I11.
	Jobs, Open int64
	// Tat belongs to the rate, as in limiterRow; full reports that the lanes of its jobs wait.
	Tat  int64
	Full bool
	// Blocker is the job that ended as the head of a sequence, and blocks it at that job's place.
	Blocker rota.JobID
	Place   uint64
	// Turn is its number of turns, starting from the least of those that waited when it last began to wait.
	Turn int64
	// Debt belongs to a rate with a unit; it is zero otherwise.
	Debt Debt
	// Pause and Breaker stop its jobs; the breaker is zero unless the rule has one.
	Pause   Pause
	Breaker Breaker
	// Due is derived: the row's due time in the timers.
	Due rota.Clock
}

// KeyCountKey returns the key of a count: for the jobs of one queue or all, of one tenant or all.
func KeyCountKey(queue rota.QueueName, tenant rota.TenantID, text string) string {
	return string(queue) + "/" + string(tenant) + "/" + text
}

// TreeKey returns the row's key in its table.
func (r *KeyCountRow) TreeKey() string { return r.Key }

// Canonical appends the canonical form for digests and snapshots.
func (r *KeyCountRow) Canonical(e *Encoder) {
	e.Str(string(r.Queue))
	e.Str(string(r.Tenant))
	e.Str(r.Text)
	e.Int(r.Jobs)
	e.Int(r.Open)
	e.Int(r.Tat)
	e.Bool(r.Full)
	e.Str(string(r.Blocker))
	e.Uint(r.Place)
	e.Int(r.Turn)
	stops := r.Pause.On || !r.Breaker.isZero()
	if !r.Debt.IsZero() || stops { // never under rules version 1
		r.Debt.canonical(e)
	}
	if stops {
		r.Pause.canonical(e)
		r.Breaker.canonical(e)
	}
}

// DecodeKeyCount reads what Canonical wrote.
func DecodeKeyCount(d *Decoder) *KeyCountRow {
	r := &KeyCountRow{Queue: rota.QueueName(d.Str()), Tenant: rota.TenantID(d.Str()), Text: d.Str(), Jobs: d.Int(),
		Open: d.Int(), Tat: d.Int(), Full: d.Bool(), Blocker: rota.JobID(d.Str()), Place: d.Uint(), Turn: d.Int(),
		Debt: decodeDebt(d)}
	if len(d.B) > 0 {
		r.Pause, r.Breaker = decodePause(d), decodeBreaker(d)
	}
	r.Key = KeyCountKey(r.Queue, r.Tenant, r.Text)
	return r
}

// owner returns no owner: a key outlives no queue and no tenant, and delays the deletion of none.
func (r *KeyCountRow) owner() (rota.QueueName, rota.TenantID) { return "", "" }

// Besides returns the size of the data that the row stores as a hash.
func (r *KeyCountRow) Besides() int64 { return 0 }

// owner returns no owner, as rules are deleted with their queue.
func (r *KeyRuleRow) owner() (rota.QueueName, rota.TenantID) { return "", "" }

// Besides returns the size of the data that the row stores as a hash.
func (r *KeyRuleRow) Besides() int64 { return 0 }

// UniqueKey is a key that at most one job holds at a time (SPEC §18.1); zero for a job without one.
type UniqueKey [16]byte

// UniqueRow records which job holds a key.
type UniqueRow struct {
	RowMeta
	// Key is the uniqueKey as a string, the key of the row.
	Key    string
	Job    rota.JobID
	Tenant rota.TenantID
	// Until is when a completed job stops holding it, 0 while the job is alive.
	Until rota.Date
	// Next is the job that gets the key then, "" for none; never under rules version 1.
	Next rota.JobID
}

// TreeKey returns the row's key in its table.
func (r *UniqueRow) TreeKey() string { return r.Key }

// Canonical appends the canonical form for digests and snapshots.
func (r *UniqueRow) Canonical(e *Encoder) {
	e.Str(r.Key)
	e.Str(string(r.Job))
	e.Str(string(r.Tenant))
	e.Int(int64(r.Until))
	if r.Next != "" {
		e.Str(string(r.Next))
	}
}

// DecodeUniqueRow reads what Canonical wrote.
func DecodeUniqueRow(d *Decoder) *UniqueRow {
	r := &UniqueRow{Key: d.Str(), Job: rota.JobID(d.Str()), Tenant: rota.TenantID(d.Str()), Until: rota.Date(d.Int())}
	if len(d.B) > 0 {
		if r.Next = rota.JobID(d.Str()); r.Next == "" {
			d.Fail()
		}
	}
	if len(r.Key) != len(UniqueKey{}) {
		d.Fail()
	}
	return r
}

func (r *UniqueRow) owner() (rota.QueueName, rota.TenantID) { return "", r.Tenant }

// Besides returns the size of the data that the row stores as a hash.
func (r *UniqueRow) Besides() int64 { return 0 }

// MergedRow is a submission that was merged into the job that held its key; it answers a repetition.
type MergedRow struct {
	RowMeta
	ID rota.JobID
	// Seq numbers the rows: the least is dropped first.
	Seq    uint64
	Holder rota.JobID
	// Content is the hash of the submission.
	Content rota.Digest
	// Merge is how its payload was merged; always MergeNone under rules version 1.
	Merge rota.Merge
}

// TreeKey returns the row's key in its table.
func (r *MergedRow) TreeKey() rota.JobID { return r.ID }

// Canonical appends the canonical form for digests and snapshots.
func (r *MergedRow) Canonical(e *Encoder) {
	e.Str(string(r.ID))
	e.Uint(r.Seq)
	e.Str(string(r.Holder))
	e.digest(r.Content)
	if r.Merge != rota.MergeNone {
		e.Str(string(r.Merge))
	}
}

// DecodeMerged reads what Canonical wrote.
func DecodeMerged(d *Decoder) *MergedRow {
	r := &MergedRow{ID: rota.JobID(d.Str()), Seq: d.Uint(), Holder: rota.JobID(d.Str()), Content: d.digest()}
	if len(d.B) > 0 {
		if r.Merge = rota.Merge(d.Str()); r.Merge == rota.MergeNone {
			d.Fail()
		}
	}
	return r
}

// It has no queue and no tenant: only later merges remove it.
func (r *MergedRow) owner() (rota.QueueName, rota.TenantID) { return "", "" }

// Besides returns the size of the data that the row stores as a hash.
func (r *MergedRow) Besides() int64 { return 0 }

func encodeUnique(e *Encoder, u *rota.Unique) {
	e.Bool(u != nil)
	if u == nil {
		return
	}
	e.Str(u.Key)
	e.strs(u.By)
	e.Int(u.Period.Milliseconds())
	e.strs(u.Scope)
	e.Int(u.Keep.Milliseconds())
	e.Str(u.OnConflict)
	e.Int(u.ExtendMax.Milliseconds())
}

func decodeUnique(d *Decoder) *rota.Unique {
	if !d.Bool() {
		return nil
	}
	return &rota.Unique{Key: d.Str(), By: d.strs(), Period: millis.Duration(d.Int()), Scope: d.strs(),
		Keep: millis.Duration(d.Int()), OnConflict: d.Str(), ExtendMax: millis.Duration(d.Int())}
}

// Idle reports whether there is nothing to count.
func (r *KeyCountRow) Idle() bool {
	return r.Jobs == 0 && r.Open == 0 && r.Tat == 0 && r.Debt.IsZero() && r.Blocker == "" && !r.Pause.On &&
		r.Breaker.Idle()
}

// PlaceOf returns a job's place in the sequence; a job that blocks it keeps its place.
func (r *KeyCountRow) PlaceOf(j *JobRow) uint64 {
	if r.Blocker == j.Spec.ID {
		return r.Place
	}
	return j.Seq
}

// Selected reports whether a filter selects the count.
func (r *KeyCountRow) Selected(f *rota.KeyFilter) bool {
	switch {
	case f.Queue != "" && r.Queue != f.Queue, f.Tenant != "" && r.Tenant != f.Tenant:
		return false
	case f.Held == rota.KeyHeldFull && !r.Full, f.Held == rota.KeyHeldBlocked && r.Blocker == "",
		f.Held == rota.KeyHeldPaused && !r.Pause.On,
		f.Held == rota.KeyHeldOpen && r.Breaker.State == rota.BreakerClosed:
		return false
	case f.Name != "":
		name, _, _ := strings.Cut(r.Text, ":")
		return name == f.Name
	}
	return true
}

// TurnAt returns the job at a count's first place, if it is its turn.
func (r *KeyCountRow) TurnAt(p KeyPlace) rota.JobID {
	if p.Count == r.Key && (r.Blocker == "" || r.Blocker == p.Job || p.Place < r.Place) {
		return p.Job
	}
	return ""
}

// Words returns a count under its rule in its public form, except whose turn it is. need is the amount that its jobs
// wait for, of a rate with a unit.
func (c *KeyCountRow) Words(r *KeyRuleRow, now rota.Moment, need int64) rota.KeyState {
	k := rota.KeyState{Queue: c.Queue, Tenant: c.Tenant, Key: c.Text, Jobs: c.Jobs, Open: c.Open, Full: c.Full,
		Blocker: c.Blocker, Concurrency: r.Concurrency, Rate: r.Rate, PeriodMs: r.PeriodMs,
		Pause: c.pauseWords(), Breaker: c.breakerWords(r, now)}
	stopped, _ := c.Stopped(r)
	if stopped {
		k.Next = now.At(c.stoppedUntil())
	}
	waits := c.Full && !stopped && !r.Taken(c)
	switch {
	case r.Rate == 0:
		return k
	case r.Unit != "":
		k.Unit, k.Needed = r.Unit, rota.Cost(need)
		k.Debt = rota.Cost(c.Owed(r, now.Clock).Quotient(r.PeriodMs, math.MaxInt64/4))
		if waits {
			k.Next = now.At(c.RepaidAt(r, need))
		}
		return k
	}
	k.Tokens = r.Bucket().Tokens(c.Tat, now.Clock)
	if waits {
		k.Next = now.At(r.Bucket().NextToken(c.Tat, now.Clock))
	}
	return k
}

// Bucket returns the bucket of the rule's rate.
func (r *KeyRuleRow) Bucket() Bucket { return Bucket{r.PeriodMs * NsPerMs / r.Rate, max(1, r.Burst)} }

// Taken reports whether a count has its maximum of open leases.
func (r *KeyRuleRow) Taken(c *KeyCountRow) bool {
	return r.Concurrency > 0 && c.Open >= r.Concurrency || r.Sequence != rota.SequenceNone && c.Open > 0
}

// KeyPlace is a job's place in the sequence of a count.
type KeyPlace struct {
	Count string
	Place uint64
	Job   rota.JobID
}

// RateCost returns the rate of a rule with a unit, in millionths per period.
func (r *KeyRuleRow) RateCost() int64 { return r.Rate * rota.CostUnit }

// BurstCost returns the burst in millionths; without one it is the rate's amount.
func (r *KeyRuleRow) BurstCost() int64 {
	if r.Burst == 0 {
		return r.RateCost()
	}
	return r.Burst * rota.CostUnit
}

// CostOf returns what a job is charged when it starts, in millionths.
func (r *KeyRuleRow) CostOf(s *rota.JobSpec) int64 {
	if estimate, ok := s.Costs[r.Unit]; ok {
		return estimate
	}
	if r.DefaultCost > 0 {
		return int64(r.DefaultCost)
	}
	return rota.CostUnit
}
