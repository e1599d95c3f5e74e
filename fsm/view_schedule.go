package fsm

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/fsm/tree"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/tidwall/btree"
)

// ScheduleOf returns a schedule in its present state.
func ScheduleOf(vw *View, name rota.ScheduleName) (rota.Schedule, bool) {
	r := vw.m.schedules.rows.Get(name)
	if r == nil {
		return rota.Schedule{}, false
	}
	return r.Words(), true
}

// SchedulesOf lists the schedules in the order of their names.
func SchedulesOf(vw *View) []rota.Schedule {
	list := make([]rota.Schedule, 0, vw.m.schedules.rows.Len())
	vw.m.schedules.rows.Scan(func(_ rota.ScheduleName, r *state.ScheduleRow) bool {
		list = append(list, r.Words())
		return true
	})
	return list
}

// DueSchedule is what a leader needs of an active schedule.
type DueSchedule struct {
	Name    rota.ScheduleName
	Times   *rota.ScheduleTimes
	Version uint64
	// Set is the start of periods if they have no start of their own.
	Set, Through rota.Date
	State        rota.ScheduleState
}

// ActiveOf lists the active schedules for a leader, in the order of their names.
func ActiveOf(vw *View) (list []DueSchedule) {
	vw.m.schedules.rows.Scan(func(_ rota.ScheduleName, r *state.ScheduleRow) bool {
		if r.State() == rota.ScheduleActive {
			list = append(list, dueSchedule(r))
		}
		return true
	})
	return list
}

// DueOf returns what a Fire of a schedule must be calculated from.
func DueOf(vw *View, name rota.ScheduleName) (DueSchedule, bool) {
	r := vw.m.schedules.rows.Get(name)
	if r == nil {
		return DueSchedule{}, false
	}
	return dueSchedule(r), true
}

// whyRunWaits explains what a run waits for that a schedule has queued because of overlap, and reports whether it is
// such a run and rd may read it.
func whyRunWaits(vw *View, x *rota.Explanation, rd *access.Reader) bool {
	name, run := rota.SplitRunID(x.Job)
	r := vw.m.schedules.rows.Get(name)
	if !run || r == nil || !rd.Reads(r.Kept.Tenant, r.Kept.Queue) {
		return false
	}
	before := slices.Index(r.Waiting, x.Job)
	if before < 0 {
		return false
	}
	x.State = rota.JobBlocked
	w := rota.Why{Reason: "WAITING_FOR_RUN"}
	switch {
	case r.Paused:
		w.Reason, w.Detail = "SCHEDULE_PAUSED", fmt.Sprintf("schedule %s is paused: %s", name, r.Why)
		x.WouldRun = append(x.WouldRun, fmt.Sprintf("the schedule is resumed (rota schedule resume %s)", name))
	case len(r.Live) > 0:
		shown := r.Live[:min(len(r.Live), parentsShown)]
		var names []string
		for _, id := range shown {
			if j := vw.m.JobTable.Get(id); rd.Reads(j.Spec.Tenant,
				j.Spec.Queue) { // the schedule may have changed since
				names = append(names, fmt.Sprintf("%s (%s)", id, j.State))
			}
		}
		w.Detail = fmt.Sprintf("%d runs of schedule %s live, whose overlap is %s: %s", len(r.Live), name,
			r.Spec.Overlap, strings.Join(names, ", "))
		if more := len(r.Live) - len(names); more > 0 {
			w.Detail += fmt.Sprintf(" and %d more", more)
		}
		x.WouldRun = append(x.WouldRun, "the last of them has ended")
	default:
		w.Reason, w.Detail = "RUN_REFUSED", fmt.Sprintf("it is tried again each second: %s", r.Why)
	}
	x.Reasons = append(x.Reasons, w)
	if before > 0 {
		x.Reasons = append(x.Reasons, rota.Why{Reason: "BEHIND_EARLIER_DATES",
			Detail: fmt.Sprintf("%d dates wait before it, the first is %s", before, r.Waiting[0])})
		x.WouldRun = append(x.WouldRun, "the runs of the dates before it have ended")
	}
	return true
}

// BatchOf returns a batch in its present state.
func BatchOf(vw *View, id rota.BatchID) (rota.Batch, bool) {
	r := vw.m.batches.rows.Get(id)
	if r == nil {
		return rota.Batch{}, false
	}
	return r.Words(), true
}

// EachBatch calls yield for the batches after an id, in the order of their ids, until it returns false.
func EachBatch(vw *View, after rota.BatchID, yield func(rota.Batch) bool) {
	vw.m.batches.rows.Tree.Ascend(after, func(id rota.BatchID, r *state.BatchRow) bool {
		return id == after || yield(r.Words())
	})
}

// BatchTotals is the number of batches by state.
type BatchTotals [rota.BatchFinished + 1]int64

// BatchTotalsOf returns how many batches there are, without reading any of them.
func BatchTotalsOf(vw *View) (t BatchTotals) {
	b := &vw.m.batches
	t[rota.BatchOpen], t[rota.BatchSealed] = b.toCome.n-b.toCome.sealed, b.toCome.sealed
	t[rota.BatchFinished] = int64(b.rows.Len()) - b.toCome.n
	return t
}

// WebhookOf returns a webhook in its present state.
func WebhookOf(vw *View, name rota.WebhookName) (rota.Webhook, bool) {
	r := vw.m.hooks.rows.Get(name)
	if r == nil {
		return rota.Webhook{}, false
	}
	return r.Words(), true
}

// WebhooksOf lists the webhooks in the order of their names.
func WebhooksOf(vw *View) []rota.Webhook {
	list := make([]rota.Webhook, 0, vw.m.hooks.rows.Len())
	vw.m.hooks.rows.Scan(func(_ rota.WebhookName, r *state.HookRow) bool {
		list = append(list, r.Words())
		return true
	})
	return list
}

// KeyList is a frozen view of the keys that rules count; reading it blocks nothing.
type KeyList struct {
	now         rota.Moment
	rules       *tree.Tree[string, *state.KeyRuleRow]
	counts      *tree.Tree[string, *state.KeyCountRow]
	line        *btree.BTreeG[state.KeyPlace]
	queuedCosts *btree.BTreeG[queuedCost]
}

// Keys freezes the keys of a machine for a list.
func Keys(m *Machine) *KeyList {
	kr := &m.keyring
	return &KeyList{now: m.Header.Now(), rules: kr.rules.Freeze(), counts: kr.counts.Freeze(), line: kr.line.Copy(),
		queuedCosts: kr.queuedCosts.Copy()}
}

// Page returns the keys that a filter selects and rd may read. If the filter asks for it, the order is first by cost
// spent. Then come the keys with the most open leases, then those with the most live jobs, then the order is by queue,
// tenant and key. It walks all counted keys, and keeps at most a page. A key whose use changes between two pages may be
// on both, or on none.
func (l *KeyList) Page(f rota.KeyFilter, rd *access.Reader) (page []rota.KeyState, next string, err error) {
	if err := f.Check(); err != nil {
		return nil, "", err
	}
	limit := f.Limit
	if limit <= 0 {
		limit = 100
	}
	limit = min(limit, limits.MaxPage)
	var after usedKey
	if f.Cursor != "" {
		if after, err = keyCursor(f.Cursor, f.By); err != nil {
			return nil, "", err
		}
	}
	var first keyHeap
	more := false
	may := keyAccess{rd: rd}
	l.counts.Scan(func(_ string, c *state.KeyCountRow) bool {
		if !c.Selected(&f) {
			return true
		}
		key := usedKey{KeyCountRow: c}
		if f.By == rota.KeyBySpent {
			key.spent = l.spent(c)
		}
		if f.Cursor != "" && !moreUsed(after, key) || len(first) == limit && !moreUsed(key, first[0]) && more ||
			!may.read(c) {
			return true
		}
		if heap.Push(&first, key); len(first) > limit {
			heap.Pop(&first)
			more = true
		}
		return true
	})
	page = make([]rota.KeyState, len(first))
	for i := len(first) - 1; i >= 0; i-- {
		c := heap.Pop(&first).(usedKey)
		if more && next == "" {
			if next = fmt.Sprintf("%d/%d/%s", c.Open, c.Jobs, c.Key); f.By == rota.KeyBySpent {
				next = fmt.Sprintf("%d/%s", c.spent, next)
			}
		}
		page[i] = l.words(c.KeyCountRow)
	}
	return page, next, nil
}

// ruleOf returns the rule of a count.
func (l *KeyList) ruleOf(c *state.KeyCountRow) *state.KeyRuleRow {
	name, value, _ := strings.Cut(c.Text, ":")
	r, ok := l.rules.Get(state.KeyRuleKey(c.Queue, name, value))
	if !ok {
		r, _ = l.rules.Get(state.KeyRuleKey(c.Queue, name, ""))
	}
	return r
}

// spent returns the part of its burst that a count owes, in millionths; 0 if its rate has no unit.
func (l *KeyList) spent(c *state.KeyCountRow) int64 {
	r := l.ruleOf(c)
	if r.Unit == "" {
		return 0
	}
	owed := c.Owed(r, l.now.Clock).Quotient(r.PeriodMs, rota.MaxCost*2)
	return state.Product(owed, 1_000_000).Quotient(r.BurstCost(), math.MaxInt64)
}

// words returns a key under its rule, which every count has.
func (l *KeyList) words(c *state.KeyCountRow) rota.KeyState {
	r := l.ruleOf(c)
	k := c.Words(r, l.now, neededBy(l.queuedCosts, c, r))
	l.line.Ascend(state.KeyPlace{Count: c.Key}, func(p state.KeyPlace) bool {
		k.Head = c.TurnAt(p)
		return false
	})
	return k
}

// usedKey is a count with the values that a list is ordered by.
type usedKey struct {
	spent int64
	*state.KeyCountRow
}

// moreUsed reports whether a key comes before another in a list.
func moreUsed(a, b usedKey) bool {
	return cmp.Or(cmp.Compare(b.spent, a.spent), cmp.Compare(b.Open, a.Open), cmp.Compare(b.Jobs, a.Jobs),
		cmp.Compare(a.Key, b.Key)) < 0
}

// keyCursor decodes the start of a page: after the key that it returns.
func keyCursor(text string, by rota.KeyOrder) (usedKey, error) {
	k := usedKey{KeyCountRow: new(state.KeyCountRow)}
	numbers := []*int64{&k.Open, &k.Jobs}
	if by == rota.KeyBySpent {
		numbers = append([]*int64{&k.spent}, numbers...)
	}
	rest, sound := text, true
	for _, n := range numbers {
		number, after, whole := strings.Cut(rest, "/")
		var err error
		*n, err = strconv.ParseInt(number, 10, 64)
		rest, sound = after, sound && whole && err == nil
	}
	if k.Key = rest; !sound || rest == "" {
		return k, rota.Refusef(rota.KindInvalid, "cursor",
			"cursor: got %.80q, which is not of this list; use the next_cursor of the previous page", text)
	}
	return k, nil
}

// keyAccess checks once, for adjacent keys that count in the same queue and tenant, whether they may be read.
type keyAccess struct {
	rd     *access.Reader
	queue  rota.QueueName
	tenant rota.TenantID
	known  bool
	may    bool
}

func (a *keyAccess) read(c *state.KeyCountRow) bool {
	if !a.known || a.queue != c.Queue || a.tenant != c.Tenant {
		tenant, queue := c.Tenant, c.Queue
		if tenant == "" {
			tenant = access.Everything
		}
		if queue == "" {
			queue = access.Everything
		}
		a.queue, a.tenant, a.known, a.may = c.Queue, c.Tenant, true, a.rd.Reads(tenant, queue)
	}
	return a.may
}

// keyHeap has the least used key on top.
type keyHeap []usedKey

func (h keyHeap) Len() int           { return len(h) }
func (h keyHeap) Less(i, j int) bool { return moreUsed(h[j], h[i]) }
func (h keyHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *keyHeap) Push(x any) { *h = append(*h, x.(usedKey)) }

// Pop implements heap.Interface.
func (h *keyHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func dueSchedule(r *state.ScheduleRow) DueSchedule {
	return DueSchedule{r.Spec.Name, &r.Spec.ScheduleTimes, r.Version, r.Set, r.Through, r.State()}
}
