package fsm

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/tree"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/tidwall/btree"
)

// ScheduleOf returns a schedule as it stands.
func ScheduleOf(vw *View, name rota.ScheduleName) (rota.Schedule, bool) {
	r := vw.m.schedules.rows.get(name)
	if r == nil {
		return rota.Schedule{}, false
	}
	return r.words(), true
}

// SchedulesOf lists the schedules in the order of their names.
func SchedulesOf(vw *View) []rota.Schedule {
	list := make([]rota.Schedule, 0, vw.m.schedules.rows.len())
	vw.m.schedules.rows.scan(func(_ rota.ScheduleName, r *scheduleRow) bool {
		list = append(list, r.words())
		return true
	})
	return list
}

// DueSchedule is what a leader must know of an active schedule.
type DueSchedule struct {
	Name    rota.ScheduleName
	Times   *rota.ScheduleTimes
	Version uint64
	// Set is what periods count from where they have no start.
	Set, Through rota.Date
	State        rota.ScheduleState
}

// ActiveOf lists the active schedules for a leader, in the order of their names.
func ActiveOf(vw *View) (list []DueSchedule) {
	vw.m.schedules.rows.scan(func(_ rota.ScheduleName, r *scheduleRow) bool {
		if r.state() == rota.ScheduleActive {
			list = append(list, dueSchedule(r))
		}
		return true
	})
	return list
}

// DueOf returns what a Fire of a schedule must be reckoned by.
func DueOf(vw *View, name rota.ScheduleName) (DueSchedule, bool) {
	r := vw.m.schedules.rows.get(name)
	if r == nil {
		return DueSchedule{}, false
	}
	return dueSchedule(r), true
}

// whyRunWaits tells what a run waits for that a schedule has queued, as it overlaps with others, and
// reports whether it is one that somebody may read.
func whyRunWaits(vw *View, x *rota.Explanation, rd *access.Reader) bool {
	name, run := rota.SplitRunID(x.Job)
	r := vw.m.schedules.rows.get(name)
	if !run || r == nil || !rd.Reads(r.kept.Tenant, r.kept.Queue) {
		return false
	}
	before := slices.Index(r.waiting, x.Job)
	if before < 0 {
		return false
	}
	x.State = rota.JobBlocked
	w := rota.Why{Reason: "WAITING_FOR_RUN"}
	switch {
	case r.paused:
		w.Reason, w.Detail = "SCHEDULE_PAUSED", fmt.Sprintf("schedule %s is paused: %s", name, r.why)
		x.WouldRun = append(x.WouldRun, fmt.Sprintf("the schedule is resumed (rota schedule resume %s)", name))
	case len(r.live) > 0:
		shown := r.live[:min(len(r.live), parentsShown)]
		var names []string
		for _, id := range shown {
			if j := vw.m.jobs.get(id); rd.Reads(j.spec.Tenant, j.spec.Queue) { // the schedule may have been set to others since
				names = append(names, fmt.Sprintf("%s (%s)", id, j.state))
			}
		}
		w.Detail = fmt.Sprintf("%d runs of schedule %s live, whose overlap is %s: %s", len(r.live), name, r.spec.Overlap, strings.Join(names, ", "))
		if more := len(r.live) - len(names); more > 0 {
			w.Detail += fmt.Sprintf(" and %d more", more)
		}
		x.WouldRun = append(x.WouldRun, "the last of them has ended")
	default:
		w.Reason, w.Detail = "RUN_REFUSED", fmt.Sprintf("it is tried again each second: %s", r.why)
	}
	x.Reasons = append(x.Reasons, w)
	if before > 0 {
		x.Reasons = append(x.Reasons, rota.Why{Reason: "BEHIND_EARLIER_DATES", Detail: fmt.Sprintf("%d dates wait before it, the first is %s", before, r.waiting[0])})
		x.WouldRun = append(x.WouldRun, "the runs of the dates before it have ended")
	}
	return true
}

// BatchOf returns a batch as it stands.
func BatchOf(vw *View, id rota.BatchID) (rota.Batch, bool) {
	r := vw.m.batches.rows.get(id)
	if r == nil {
		return rota.Batch{}, false
	}
	return r.words(), true
}

// EachBatch calls yield for the batches behind an id, in the order of their ids, until that
// returns false.
func EachBatch(vw *View, after rota.BatchID, yield func(rota.Batch) bool) {
	vw.m.batches.rows.tree.Ascend(after, func(id rota.BatchID, r *batchRow) bool {
		return id == after || yield(r.words())
	})
}

// BatchTotals counts the batches by state.
type BatchTotals [rota.BatchFinished + 1]int64

// BatchTotalsOf returns how many batches there are, without a look at any of them.
func BatchTotalsOf(vw *View) (t BatchTotals) {
	b := &vw.m.batches
	t[rota.BatchOpen], t[rota.BatchSealed] = b.toCome.n-b.toCome.sealed, b.toCome.sealed
	t[rota.BatchFinished] = int64(b.rows.len()) - b.toCome.n
	return t
}

// WebhookOf returns a webhook as it stands.
func WebhookOf(vw *View, name rota.WebhookName) (rota.Webhook, bool) {
	r := vw.m.hooks.rows.get(name)
	if r == nil {
		return rota.Webhook{}, false
	}
	return r.words(), true
}

// WebhooksOf lists the webhooks in the order of their names.
func WebhooksOf(vw *View) []rota.Webhook {
	list := make([]rota.Webhook, 0, vw.m.hooks.rows.len())
	vw.m.hooks.rows.scan(func(_ rota.WebhookName, r *hookRow) bool {
		list = append(list, r.words())
		return true
	})
	return list
}

// KeyList is a frozen view of the keys that rules count; reading it holds nothing up.
type KeyList struct {
	now    rota.Moment
	rules  *tree.Tree[string, *keyRuleRow]
	counts *tree.Tree[string, *keyCountRow]
	line   *btree.BTreeG[keyPlace]
}

// Keys freezes the keys of a machine for a list.
func Keys(m *Machine) *KeyList {
	kr := &m.keyring
	return &KeyList{now: m.head.now(), rules: kr.rules.freeze(), counts: kr.counts.freeze(), line: kr.line.Copy()}
}

// Page returns the keys that a filter selects and rd may read: those with the most open leases
// first, of equals those with the most live jobs, then by queue, tenant and key. It walks all that
// are counted, and keeps no more than a page. One whose use changes between two pages may be on
// both, or on none.
func (l *KeyList) Page(f rota.KeyFilter, rd *access.Reader) (page []rota.KeyState, next string, err error) {
	if err := f.Check(); err != nil {
		return nil, "", err
	}
	limit := f.Limit
	if limit <= 0 {
		limit = 100
	}
	limit = min(limit, limits.MaxPage)
	var after *keyCountRow
	if f.Cursor != "" {
		if after, err = keyCursor(f.Cursor); err != nil {
			return nil, "", err
		}
	}
	var first keyHeap
	more := false
	may := keyAccess{rd: rd}
	l.counts.Scan(func(_ string, c *keyCountRow) bool {
		if !c.selected(&f) || after != nil && !moreUsed(after, c) || len(first) == limit && !moreUsed(c, first[0]) && more || !may.read(c) {
			return true
		}
		if heap.Push(&first, c); len(first) > limit {
			heap.Pop(&first)
			more = true
		}
		return true
	})
	page = make([]rota.KeyState, len(first))
	for i := len(first) - 1; i >= 0; i-- {
		c := heap.Pop(&first).(*keyCountRow)
		if more && next == "" {
			next = fmt.Sprintf("%d/%d/%s", c.open, c.jobs, c.key)
		}
		page[i] = l.words(c)
	}
	return page, next, nil
}

// words tells a key under its rule, which every count has.
func (l *KeyList) words(c *keyCountRow) rota.KeyState {
	name, value, _ := strings.Cut(c.text, ":")
	r, ok := l.rules.Get(keyRuleKey(c.queue, name, value))
	if !ok {
		r, _ = l.rules.Get(keyRuleKey(c.queue, name, ""))
	}
	k := c.words(r, l.now)
	l.line.Ascend(keyPlace{count: c.key}, func(p keyPlace) bool {
		k.Head = c.turnAt(p)
		return false
	})
	return k
}

// moreUsed reports whether a key stands before another in a list by use.
func moreUsed(a, b *keyCountRow) bool {
	return cmp.Or(cmp.Compare(b.open, a.open), cmp.Compare(b.jobs, a.jobs), cmp.Compare(a.key, b.key)) < 0
}

// keyCursor reads where a page begins: behind the row that it returns.
func keyCursor(text string) (*keyCountRow, error) {
	open, rest, _ := strings.Cut(text, "/")
	jobs, key, whole := strings.Cut(rest, "/")
	r := &keyCountRow{key: key}
	var err, err2 error
	r.open, err = strconv.ParseInt(open, 10, 64)
	r.jobs, err2 = strconv.ParseInt(jobs, 10, 64)
	if err != nil || err2 != nil || !whole || key == "" {
		return nil, rota.Refusef(rota.KindInvalid, "cursor", "cursor %.80q is none of this list: the next_cursor of the page before is wanted", text)
	}
	return r, nil
}

// keyAccess asks once for the neighbours that count in the same queue and tenant whether they may be read.
type keyAccess struct {
	rd     *access.Reader
	queue  rota.QueueName
	tenant rota.TenantID
	known  bool
	may    bool
}

func (a *keyAccess) read(c *keyCountRow) bool {
	if !a.known || a.queue != c.queue || a.tenant != c.tenant {
		tenant, queue := c.tenant, c.queue
		if tenant == "" {
			tenant = access.Everything
		}
		if queue == "" {
			queue = access.Everything
		}
		a.queue, a.tenant, a.known, a.may = c.queue, c.tenant, true, a.rd.Reads(tenant, queue)
	}
	return a.may
}

// keyHeap has the least used on top.
type keyHeap []*keyCountRow

func (h keyHeap) Len() int           { return len(h) }
func (h keyHeap) Less(i, j int) bool { return moreUsed(h[j], h[i]) }
func (h keyHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *keyHeap) Push(x any) { *h = append(*h, x.(*keyCountRow)) }

// Pop implements heap.Interface.
func (h *keyHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func dueSchedule(r *scheduleRow) DueSchedule {
	return DueSchedule{r.spec.Name, &r.spec.ScheduleTimes, r.version, r.set, r.through, r.state()}
}
