package fsm

import (
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/millis"
)

// keyRuleRow is what the jobs of a key are held to (SPEC §19.1).
type keyRuleRow struct {
	rowMeta
	// key is the keyRuleKey, by which the row is found.
	key string
	rota.KeyRule
	// turn is that of the jobs that name no key, where Group, last the one that was had last.
	turn, last int64
}

func keyRuleKey(queue rota.QueueName, name, value string) string {
	return string(queue) + "/" + name + ":" + value
}

func (r *keyRuleRow) TreeKey() string { return r.key }

// etag is the version of a rule.
func (r *keyRuleRow) etag() string {
	return etagOf(func(e *encoder) {
		e.uint(uint64(r.Scope))
		for _, v := range []int64{r.Concurrency, r.Rate, r.PeriodMs, r.Burst} {
			e.int(v)
		}
		e.uint(uint64(r.Sequence))
		e.bool(r.Group)
	})
}

func (r *keyRuleRow) canonical(e *encoder) {
	e.str(string(r.Queue))
	e.str(r.Name)
	e.str(r.Value)
	e.uint(uint64(r.Scope))
	e.int(r.Concurrency)
	e.int(r.Rate)
	e.int(r.PeriodMs)
	e.int(r.Burst)
	e.uint(uint64(r.Sequence))
	e.bool(r.Group)
	e.int(r.turn)
	e.int(r.last)
}

func decodeKeyRule(d *decoder) *keyRuleRow {
	r := &keyRuleRow{KeyRule: rota.KeyRule{Queue: rota.QueueName(d.str()), Name: d.str(), Value: d.str(),
		Scope: rota.KeyScope(d.enum(uint64(rota.KeyOfCluster))), Concurrency: d.int(), Rate: d.int(), PeriodMs: d.int(), Burst: d.int(),
		Sequence: rota.KeySequence(d.enum(uint64(rota.SequenceSkip))), Group: d.bool()}, turn: d.int(), last: d.int()}
	r.key = keyRuleKey(r.Queue, r.Name, r.Value)
	return r
}

// keyCountRow counts the jobs of a key that a rule is for. There is one while it has jobs,
// while tokens of its rate are out, and while its sequence is blocked.
type keyCountRow struct {
	rowMeta
	// key is the keyCountKey, by which the row is found.
	key    string
	queue  rota.QueueName
	tenant rota.TenantID
	// text is the jobs' key.
	text string
	// jobs are live, open of them have a lease. Invariant I11.
	jobs, open int64
	// tat is the rate's, as in limiterRow; full says that the lanes of its jobs wait.
	tat  int64
	full bool
	// blocker is the job that ended as the head of a sequence, and blocks it at its place.
	blocker rota.JobID
	place   uint64
	// turn is how many it had, counted from the least of those that waited as it last began to.
	turn int64
	// due is derived: where the row stands in the timers.
	due rota.Clock
}

// keyCountKey names what the jobs of a key are counted in: those of a queue or of all, of a
// tenant or of all.
func keyCountKey(queue rota.QueueName, tenant rota.TenantID, text string) string {
	return string(queue) + "/" + string(tenant) + "/" + text
}

func (r *keyCountRow) TreeKey() string { return r.key }

func (r *keyCountRow) canonical(e *encoder) {
	e.str(string(r.queue))
	e.str(string(r.tenant))
	e.str(r.text)
	e.int(r.jobs)
	e.int(r.open)
	e.int(r.tat)
	e.bool(r.full)
	e.str(string(r.blocker))
	e.uint(r.place)
	e.int(r.turn)
}

func decodeKeyCount(d *decoder) *keyCountRow {
	r := &keyCountRow{queue: rota.QueueName(d.str()), tenant: rota.TenantID(d.str()), text: d.str(), jobs: d.int(), open: d.int(),
		tat: d.int(), full: d.bool(), blocker: rota.JobID(d.str()), place: d.uint(), turn: d.int()}
	r.key = keyCountKey(r.queue, r.tenant, r.text)
	return r
}

// owner is nobody: a key outlives no queue and no tenant, and holds none up.
func (r *keyCountRow) owner() (rota.QueueName, rota.TenantID) { return "", "" }

func (r *keyCountRow) besides() int64 { return 0 }

// owner is nobody, as rules go with their queue.
func (r *keyRuleRow) owner() (rota.QueueName, rota.TenantID) { return "", "" }

func (r *keyRuleRow) besides() int64 { return 0 }

// uniqueKey is what at most one job at a time stands for (SPEC §18.1): zero of a job that is
// unique by nothing.
type uniqueKey [16]byte

// uniqueRow says which job holds a key.
type uniqueRow struct {
	rowMeta
	// key is the uniqueKey as a string, by which the row is found.
	key    string
	job    rota.JobID
	tenant rota.TenantID
	// until is when a completed job ceases to hold it, 0 while the job is alive.
	until rota.Date
	// next is the job that takes it then, "" for none; never by rules version 1.
	next rota.JobID
}

func (r *uniqueRow) TreeKey() string { return r.key }

func (r *uniqueRow) canonical(e *encoder) {
	e.str(r.key)
	e.str(string(r.job))
	e.str(string(r.tenant))
	e.int(int64(r.until))
	if r.next != "" {
		e.str(string(r.next))
	}
}

func decodeUniqueRow(d *decoder) *uniqueRow {
	r := &uniqueRow{key: d.str(), job: rota.JobID(d.str()), tenant: rota.TenantID(d.str()), until: rota.Date(d.int())}
	if len(d.b) > 0 {
		if r.next = rota.JobID(d.str()); r.next == "" {
			d.fail()
		}
	}
	if len(r.key) != len(uniqueKey{}) {
		d.fail()
	}
	return r
}

func (r *uniqueRow) owner() (rota.QueueName, rota.TenantID) { return "", r.tenant }
func (r *uniqueRow) besides() int64                         { return 0 }

// mergedRow is a submission that was merged into the job that held its key: it answers a
// repetition.
type mergedRow struct {
	rowMeta
	id rota.JobID
	// seq numbers them: the least gives way.
	seq    uint64
	holder rota.JobID
	// content is the hash of what was submitted.
	content rota.Digest
	// merge is what became of its payload; always MergeNone by rules version 1.
	merge rota.Merge
}

func (r *mergedRow) TreeKey() rota.JobID { return r.id }

func (r *mergedRow) canonical(e *encoder) {
	e.str(string(r.id))
	e.uint(r.seq)
	e.str(string(r.holder))
	e.digest(r.content)
	if r.merge != rota.MergeNone {
		e.str(string(r.merge))
	}
}

func decodeMerged(d *decoder) *mergedRow {
	r := &mergedRow{id: rota.JobID(d.str()), seq: d.uint(), holder: rota.JobID(d.str()), content: d.digest()}
	if len(d.b) > 0 {
		if r.merge = rota.Merge(d.str()); r.merge == rota.MergeNone {
			d.fail()
		}
	}
	return r
}

// It is of no queue and no tenant: nothing but later ones takes it away.
func (r *mergedRow) owner() (rota.QueueName, rota.TenantID) { return "", "" }
func (r *mergedRow) besides() int64                         { return 0 }

func encodeUnique(e *encoder, u *rota.Unique) {
	e.bool(u != nil)
	if u == nil {
		return
	}
	e.str(u.Key)
	e.strs(u.By)
	e.int(u.Period.Milliseconds())
	e.strs(u.Scope)
	e.int(u.Keep.Milliseconds())
	e.str(u.OnConflict)
	e.int(u.ExtendMax.Milliseconds())
}

func decodeUnique(d *decoder) *rota.Unique {
	if !d.bool() {
		return nil
	}
	return &rota.Unique{Key: d.str(), By: d.strs(), Period: millis.Duration(d.int()), Scope: d.strs(), Keep: millis.Duration(d.int()),
		OnConflict: d.str(), ExtendMax: millis.Duration(d.int())}
}

// idle reports whether there is nothing to count.
func (r *keyCountRow) idle() bool { return r.jobs == 0 && r.open == 0 && r.tat == 0 && r.blocker == "" }

// placeOf is a job's place in the sequence: one that blocks it keeps the place that it had.
func (r *keyCountRow) placeOf(j *jobRow) uint64 {
	if r.blocker == j.spec.ID {
		return r.place
	}
	return j.seq
}

// selected reports whether a filter asks for a key.
func (r *keyCountRow) selected(f *rota.KeyFilter) bool {
	switch {
	case f.Queue != "" && r.queue != f.Queue, f.Tenant != "" && r.tenant != f.Tenant:
		return false
	case f.Held == rota.KeyHeldFull && !r.full, f.Held == rota.KeyHeldBlocked && r.blocker == "":
		return false
	case f.Name != "":
		name, _, _ := strings.Cut(r.text, ":")
		return name == f.Name
	}
	return true
}

// turnAt returns the job of a count's first place, where it is its turn.
func (r *keyCountRow) turnAt(p keyPlace) rota.JobID {
	if p.count == r.key && (r.blocker == "" || r.blocker == p.job || p.place < r.place) {
		return p.job
	}
	return ""
}

// words tells a count under its rule, but for whose turn it is.
func (c *keyCountRow) words(r *keyRuleRow, now rota.Moment) rota.KeyState {
	k := rota.KeyState{Queue: c.queue, Tenant: c.tenant, Key: c.text, Jobs: c.jobs, Open: c.open, Full: c.full, Blocker: c.blocker,
		Concurrency: r.Concurrency, Rate: r.Rate, PeriodMs: r.PeriodMs}
	if r.Rate == 0 {
		return k
	}
	k.Tokens = r.bucket().tokens(c.tat, now.Clock)
	if c.full && !r.taken(c) {
		k.Next = now.At(r.bucket().nextToken(c.tat, now.Clock))
	}
	return k
}

// bucket is the one of the rule's rate.
func (r *keyRuleRow) bucket() bucket { return bucket{r.PeriodMs * nsPerMs / r.Rate, max(1, r.Burst)} }

// taken reports whether as many leases of a count are open as may be.
func (r *keyRuleRow) taken(c *keyCountRow) bool {
	return r.Concurrency > 0 && c.open >= r.Concurrency || r.Sequence != rota.SequenceNone && c.open > 0
}

// keyPlace is a job's place in the sequence of a count.
type keyPlace struct {
	count string
	place uint64
	job   rota.JobID
}
