package keys

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/fsm/tree"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/tidwall/btree"
)

// List is a frozen view of the keys that rules count; reading it blocks nothing.
type List struct {
	now         rota.Moment
	rules       *tree.Tree[string, *state.KeyRuleRow]
	counts      *tree.Tree[string, *state.KeyCountRow]
	line        *btree.BTreeG[state.KeyPlace]
	queuedCosts *btree.BTreeG[queuedCost]
}

// Freeze freezes the keys for a list.
func Freeze(kr *Keyring) *List {
	return &List{now: kr.s.Header.Now(), rules: kr.Rules.Freeze(), counts: kr.CountRows.Freeze(), line: kr.line.Copy(),
		queuedCosts: kr.queuedCosts.Copy()}
}

// Page returns the keys that a filter selects and rd may read. If the filter asks for it, the order is first by cost
// spent. Then come the keys with the most open leases, then those with the most live jobs, then the order is by queue,
// tenant and key. It walks all counted keys, and keeps at most a page. A key whose use changes between two pages may be
// on both, or on none.
func (l *List) Page(f rota.KeyFilter, rd *access.Reader) (page []rota.KeyState, next string, err error) {
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

// RuleOf returns the rule of a count.
func (l *List) ruleOf(c *state.KeyCountRow) *state.KeyRuleRow {
	name, value, _ := strings.Cut(c.Text, ":")
	r, ok := l.rules.Get(state.KeyRuleKey(c.Queue, name, value))
	if !ok {
		r, _ = l.rules.Get(state.KeyRuleKey(c.Queue, name, ""))
	}
	return r
}

// spent returns the part of its burst that a count owes, in millionths; 0 if its rate has no unit.
func (l *List) spent(c *state.KeyCountRow) int64 {
	r := l.ruleOf(c)
	if r.Unit == "" {
		return 0
	}
	owed := c.Owed(r, l.now.Clock).Quotient(r.PeriodMs, rota.MaxCost*2)
	return state.Product(owed, 1_000_000).Quotient(r.BurstCost(), math.MaxInt64)
}

// words returns a key under its rule, which every count has.
func (l *List) words(c *state.KeyCountRow) rota.KeyState {
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

// RulesOf lists the rules by queue, name and value.
func RulesOf(kr *Keyring) []rota.KeyRule {
	list := make([]rota.KeyRule, 0, kr.Rules.Len())
	kr.Rules.Scan(func(_ string, r *state.KeyRuleRow) bool {
		rule := r.KeyRule
		rule.ETag = r.ETag()
		list = append(list, rule)
		return true
	})
	return list
}

// StatesOf returns the counts of a tenant's key under each rule for it, if shown allows it.
func StatesOf(kr *Keyring, tenant rota.TenantID, key string, shown func(*rota.KeyState) bool) (list []rota.KeyState) {
	name, value, _ := strings.Cut(key, ":")
	kr.Rules.Scan(func(_ string, r *state.KeyRuleRow) bool {
		if r.Name != name || kr.rule(r.Queue, name, value) != r {
			return true
		}
		of := tenant
		if r.Scope == rota.KeyOfCluster {
			of = ""
		}
		if c := kr.CountRows.Get(state.KeyCountKey(r.Queue, of, key)); c != nil {
			if k := words(kr, c, r); shown(&k) {
				list = append(list, k)
			}
		}
		return len(list) < limits.MaxKeyStates
	})
	return list
}

func words(kr *Keyring, c *state.KeyCountRow, r *state.KeyRuleRow) rota.KeyState {
	k := c.Words(r, kr.s.Header.Now(), kr.Needed(c, r))
	k.Head = kr.turnOf(c)
	return k
}

// StoppedKeys returns how many keys are paused, and of how many the breaker is open or probing.
func StoppedKeys(kr *Keyring) (paused, open int64) {
	kr.stopped.Scan(func(key string) bool {
		c := kr.CountRows.Get(key)
		if c.Pause.On {
			paused++
		}
		if c.Breaker.State != rota.BreakerClosed {
			open++
		}
		return true
	})
	return paused, open
}
