package fsm

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
)

// usedKeys is a bench with keys of three tenants under rules of a queue and of all: some full, some blocked.
func usedKeys(t *testing.T) *bench {
	b := newBench(t)
	b.rule(rota.KeyRule{Name: "k", Concurrency: 2})
	b.rule(rota.KeyRule{Queue: "default", Name: "k", Value: "3", Rate: 1, PeriodMs: 60_000})
	b.rule(rota.KeyRule{Name: "all", Scope: rota.KeyOfCluster, Concurrency: 50})
	for _, name := range []string{"s:1", "s:2"} {
		b.blockedKey(name, "dead-"+name[2:])
		b.submit("behind-"+name[2:], ofKeys(name))
	}
	b.worker("w2", 40)
	for i := range 60 {
		b.submit(fmt.Sprint("j", i), ofKeys(fmt.Sprint("k:", i%7), "all:x"),
			func(s *rota.JobSpec) { s.Tenant = rota.TenantID(fmt.Sprint("t", i%3)) })
	}
	b.match()
	return b
}

// naive returns the list that Page must return, from the views of single keys.
func (b *bench) naive(rd *access.Reader, selected func(rota.KeyState) bool) (list []rota.KeyState) {
	all := access.Everything
	b.keyring.CountRows.Scan(func(_ string, c *state.KeyCountRow) bool {
		tenant, queue := c.Tenant, c.Queue
		if tenant == "" {
			tenant = rota.TenantID(all)
		}
		if queue == "" {
			queue = rota.QueueName(all)
		}
		for _, k := range KeyStates(&b.View, c.Tenant, c.Text, func(*rota.KeyState) bool { return true }) {
			if k.Queue == c.Queue && k.Tenant == c.Tenant && rd.Reads(tenant, queue) && selected(k) {
				list = append(list, k)
			}
		}
		return true
	})
	slices.SortStableFunc(list, func(a, b rota.KeyState) int {
		if a.Open != b.Open {
			return int(b.Open - a.Open)
		}
		return int(b.Jobs - a.Jobs)
	})
	return list
}

// TestKeyList checks that pages of any length make up the same list, by use, with what a filter selects and a reader
// may read.
func TestKeyList(t *testing.T) {
	t.Parallel()
	b := usedKeys(t)
	tenant := access.NewRights([]rota.Role{{Grants: []rota.Grant{{Right: rota.RightRead, Tenant: "t1", Queue: "*"}}}},
		nil, nil)
	queue := access.NewRights([]rota.Role{{Grants: []rota.Grant{{Right: rota.RightRead, Tenant: "*",
		Queue: "default"}}}}, nil, nil)
	for name, c := range map[string]struct {
		rd       *access.Reader
		filter   rota.KeyFilter
		selected func(rota.KeyState) bool
		least    int
	}{
		"all":  {nil, rota.KeyFilter{}, func(rota.KeyState) bool { return true }, 20},
		"full": {nil, rota.KeyFilter{Held: rota.KeyHeldFull}, func(k rota.KeyState) bool { return k.Full }, 3},
		"blocked": {nil, rota.KeyFilter{Held: rota.KeyHeldBlocked},
			func(k rota.KeyState) bool { return k.Blocker != "" }, 2},
		"of a name": {nil, rota.KeyFilter{Name: "all"},
			func(k rota.KeyState) bool { return strings.HasPrefix(k.Key, "all:") }, 1},
		"of a queue": {nil, rota.KeyFilter{Queue: "default"},
			func(k rota.KeyState) bool { return k.Queue == "default" }, 3},
		"of a tenant": {nil, rota.KeyFilter{Tenant: "t2"}, func(k rota.KeyState) bool { return k.Tenant == "t2" }, 7},
		"a tenant's role": {access.NewReader(&tenant), rota.KeyFilter{},
			func(k rota.KeyState) bool { return k.Tenant == "t1" }, 7},
		"a queue's role": {access.NewReader(&queue), rota.KeyFilter{},
			func(k rota.KeyState) bool { return k.Queue == "default" }, 3},
	} {
		want := b.naive(c.rd, c.selected)
		if len(want) < c.least {
			t.Fatalf("%s: %d keys are there", name, len(want))
		}
		for _, f := range want {
			if c.rd != nil && !c.selected(f) {
				t.Errorf("%s: the naive list has %+v", name, f)
			}
		}
		for _, limit := range []int{1, 2, 7, len(want), 0} {
			c.filter.Limit, c.filter.Cursor = limit, ""
			got := []rota.KeyState{}
			for pages := 0; ; pages++ {
				page, next, err := Keys(b.Machine).Page(c.filter, c.rd)
				if err != nil || limit > 0 && len(page) > limit || pages > 100 || next != "" && len(page) != limit {
					t.Fatalf("%s by %d: a page of %d, %v", name, limit, len(page), err)
				}
				got = append(got, page...)
				if c.filter.Cursor = next; next == "" {
					break
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s by %d: got\n%+v\nwant\n%+v", name, limit, got, want)
			}
		}
	}
	for _, cursor := range []string{"x", "1/2", "1/x/k", "1/2/"} {
		if _, _, err := Keys(b.Machine).Page(rota.KeyFilter{Cursor: cursor},
			nil); rota.KindOf(err) != rota.KindInvalid {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
	b.sound()
}

// TestKeyList_frozen checks that later changes do not affect a list.
func TestKeyList_frozen(t *testing.T) {
	t.Parallel()
	b := usedKeys(t)
	list := Keys(b.Machine)
	before, _, _ := list.Page(rota.KeyFilter{}, nil)
	for _, k := range before {
		if k.Blocker != "" {
			b.ok(SkipKeyOp(k.Queue, k.Tenant, k.Key, k.Blocker))
		}
	}
	for i := range 60 {
		b.submit(fmt.Sprint("n", i), ofKeys(fmt.Sprint("k:", i)))
	}
	b.ok(DeleteKeyRuleOp("", "all", ""))
	if after, _, _ := list.Page(rota.KeyFilter{}, nil); !reflect.DeepEqual(before, after) {
		t.Errorf("%+v\nbecame\n%+v", before, after)
	}
	b.sound()
}

// TestKeyList_bySpent checks the order by the part of the burst that is spent, page by page.
func TestKeyList_bySpent(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.rule(rota.KeyRule{Name: "m", Rate: 1, PeriodMs: 100_000, Burst: 100, Unit: "u"})
	b.rule(rota.KeyRule{Name: "n", Rate: 1, PeriodMs: 100_000, Burst: 10, Unit: "u"})
	b.rule(rota.KeyRule{Name: "c", Concurrency: 9})
	b.worker("w", 40)
	for key, cost := range map[string]int{"m:1": 50, "m:2": 20, "n:1": 8, "c:1": 90} {
		b.submit("j-"+key, ofKeys(key), costs("u", cost))
	}
	b.submit("j-idle", ofKeys("c:1"))
	b.match()
	for _, limit := range []int{1, 2, 3, 0} {
		f := rota.KeyFilter{By: rota.KeyBySpent, Limit: limit}
		var got []string
		for {
			page, next, err := Keys(b.Machine).Page(f, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range page {
				got = append(got, k.Key)
			}
			if f.Cursor = next; next == "" {
				break
			}
		}
		if want := []string{"n:1", "m:1", "m:2", "c:1"}; !slices.Equal(got, want) {
			t.Errorf("by %d: got %v, want %v", limit, got, want)
		}
	}
	for _, cursor := range []string{"1/2/k:1", "x/1/2/k:1", "1/2/3/"} {
		if _, _, err := Keys(b.Machine).Page(rota.KeyFilter{By: rota.KeyBySpent, Cursor: cursor},
			nil); rota.KindOf(err) != rota.KindInvalid {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
	b.sound()
}
