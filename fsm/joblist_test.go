package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/filter"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// searched is a bench with jobs of every part of a list: live, waiting for parents, ended with a tombstone and ended in
// the archive only.
func searched(t *testing.T) (*bench, history) {
	b := newBench(t)
	b.ok(queueOp("default", "attempt_max", "1", "audit_window", "0", "gc_horizon_ms", "60000"))
	b.ok(queueOp("mail", "attempt_max", "1"))
	fail := func(id, text string, change ...func(*rota.JobSpec)) {
		l := b.leased(id, "w", change...)
		b.ok(verb(rota.VerbFail, l, func(c *peer.LeaseCommand) { c.Text = text }))
	}
	fail("old", "order 1 not found", func(s *rota.JobSpec) { s.Labels = map[string]string{"team": "tv"} })
	var h history
	for _, s := range b.View.Staged(100, 1<<30) {
		h = append(h, s.Ended())
		b.View.Archived([]uint64{s.Seq})
	}
	b.pass(70_000)
	b.ok(sweepOp())
	if b.View.m.ended.tombs.Len() != 0 {
		t.Fatal("the first end is still remembered")
	}
	fail("dead", "order 2 not found", func(s *rota.JobSpec) { s.Labels = map[string]string{"team": "film"} })
	fail("refused", "refused")
	b.submit("live", func(s *rota.JobSpec) { s.Queue, s.Type, s.Priority = "mail", "send", 1 })
	b.pass(10_000)
	b.submit("fresh", func(s *rota.JobSpec) { s.Labels = map[string]string{"team": "film"} })
	return b, h
}

// TestPage_filters checks that a filter selects in every part of a list, counts the selected jobs, and that the pages
// together equal one large page.
func TestPage_filters(t *testing.T) {
	t.Parallel()
	b, h := searched(t)
	print := fmt.Sprintf("%x", []byte(state.Fingerprint("work", rota.ReasonProviderFail, "order 3 not found")))
	for where, want := range map[string]string{
		"": "[fresh live refused dead old]", "state=DEAD": "[refused dead old]",
		"-state=DEAD,COMPLETED": "[fresh live]",
		"queue=mail":            "[live]", "type=send,none": "[live]", "id=f*,o*": "[fresh old]",
		"label.team=film": "[fresh dead]", "label.team=*": "[fresh dead old]",
		"error~found": "[dead old]", "error=" + print: "[dead old]", "-error~found state=DEAD": "[refused]",
		"priority<=1": "[live]", "age>60s": "[old]", "age<5s": "[fresh]", "workflow=*": "[]", "tenant=nobody": "[]",
	} {
		for limit := 1; limit < 7; limit += 5 {
			f := rota.JobFilter{Where: where, Limit: limit}
			got := []rota.JobID{}
			for more := true; more; more = f.Cursor != "" {
				page, err := b.View.Jobs().Page(f, h)
				if err != nil {
					t.Fatal(err)
				}
				for _, j := range page.Jobs {
					got = append(got, j.ID)
				}
				f.Cursor = page.NextCursor
			}
			if fmt.Sprint(got) != want {
				t.Errorf("%q in pages of %d: got %v, want %s", where, limit, got, want)
			}
			page, err := b.View.Jobs().Page(rota.JobFilter{Where: where, Count: true, Limit: limit}, h)
			if c := page.Counted; err != nil || c == nil || c.Count != int64(len(got)) || !c.Complete ||
				len(page.Jobs) != 0 {
				t.Errorf("%q is counted as %+v: %v", where, c, err)
			}
		}
	}
	for field, f := range map[string]rota.JobFilter{"filter": {Where: "state=GONE"}, "group_by": {GroupBy: "type"}} {
		if _, err := b.View.Jobs().Page(f, h); rota.KindOf(err) != rota.KindInvalid ||
			rota.ErrorOf(err).Subject != field {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// TestPage_groups checks that dead jobs with a similar failure are one group, in whichever part they are.
func TestPage_groups(t *testing.T) {
	t.Parallel()
	b, h := searched(t)
	page, err := b.View.Jobs().Page(rota.JobFilter{State: rota.JobDead, GroupBy: "fingerprint"}, h)
	if err != nil || page.Counted == nil || page.Counted.Count != 3 || len(page.Counted.Groups) != 2 {
		t.Fatalf("%+v, %v", page.Counted, err)
	}
	g := page.Counted.Groups
	if g[0], g[1] = g[1], g[0]; g[0].Count != 2 || g[0].Job != "dead" || g[0].Error != "order 2 not found" ||
		g[0].Type != "work" || g[0].Reason != rota.ReasonProviderFail ||
		len(g[0].Fingerprint) != state.FingerprintSize || g[1].Count != 1 || g[1].Job != "refused" {
		t.Errorf("%+v", g)
	}
}

// TestPage_groupsAreBounded checks that the groups of a page fit in a response; its cursor continues with the next.
func TestPage_groupsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range limits.MaxGroups + 10 {
		b.View.m.ended.tombs.Insert(&state.TombRow{ID: rota.JobID(fmt.Sprintf("t%05d", i)), Queue: "default",
			Typ: "work", Tenant: "default", State: rota.JobDead,
			Fingerprint: fmt.Sprintf("%08d", i), Seq: uint64(i + 1), Number: uint64(i + 1)})
	}
	b.View.m.Header.JobSeq, b.View.m.Header.TombSeq = limits.MaxGroups+10, limits.MaxGroups+10
	f := rota.JobFilter{GroupBy: "fingerprint"}
	for _, want := range []int{limits.MaxGroups, 10} {
		page, err := b.View.Jobs().Page(f, nil)
		if c := page.Counted; err != nil || len(c.Groups) != want || c.Count != int64(want) ||
			c.Complete != (want == 10) || c.NextCursor != page.NextCursor {
			t.Fatalf("%d groups, complete %v, %v", len(c.Groups), c.Complete, err)
		}
		f.Cursor = page.NextCursor
	}
}

// TestPage_filtersWhatMayBeRead checks that a caller without the right to read errors finds nothing by them, and sees
// none in a group.
func TestPage_filtersWhatMayBeRead(t *testing.T) {
	t.Parallel()
	b, h := searched(t)
	rights := access.NewRights([]rota.Role{{Grants: []rota.Grant{{Right: rota.RightRead, Tenant: "*", Queue: "*"}}}},
		nil, nil)
	list := b.View.Jobs().For(access.NewReader(&rights))
	for _, where := range []string{"error~found", "error=" + fmt.Sprintf("%x",
		state.Fingerprint("work", rota.ReasonProviderFail, "refused"))} {
		page, err := list.Page(rota.JobFilter{Where: where}, h)
		if err != nil || len(page.Jobs) != 0 {
			t.Errorf("%s finds %v, %v", where, page.Jobs, err)
		}
	}
	page, err := list.Page(rota.JobFilter{State: rota.JobDead, GroupBy: "fingerprint"}, h)
	if g := page.Counted.Groups; err != nil || len(g) != 1 || g[0].Count != 3 || g[0].Error != "" ||
		len(g[0].Fingerprint) != 0 {
		t.Errorf("%+v, %v", g, err)
	}
}

// TestPage_whileJobsEnd checks that a list shows each job that existed throughout exactly once, whichever jobs end, or
// are released, submitted, forgotten by memory or retried between two pages; a job retried meanwhile is shown at most
// once.
func TestPage_whileJobsEnd(t *testing.T) {
	t.Parallel()
	long(t)
	for seed := range uint64(60) {
		chance := rand.New(rand.NewPCG(seed, 3))
		b := newBench(t)
		b.ok(queueOp("q2"))
		var h history
		made := 0
		var live, over []rota.JobID
		act := func() (moved rota.JobID) {
			switch n := chance.IntN(12); {
			case n < 3:
				id := fmt.Sprintf("j%02d", made*37%100)
				made++
				b.submit(id)
				live = append(live, rota.JobID(id))
			case n < 8 && len(live) > 0:
				at := chance.IntN(len(live))
				b.ok(cancelOp(string(live[at])))
				over = append(over, live[at])
				live = slices.Delete(live, at, at+1)
			case n < 10:
				for _, s := range b.View.Staged(1+chance.IntN(9), 1<<30) {
					h = slices.DeleteFunc(h,
						func(e Ended) bool { return e.Job.ID == s.ID }) // keeps only the latest end
					h = append(h, s.Ended())
					b.View.Archived([]uint64{s.Seq})
				}
			case n == 10 && len(over) > 0:
				at := chance.IntN(len(over))
				moved = over[at]
				over = slices.Delete(over, at, at+1)
				op := retryOp(string(moved))
				op.GetRetry().Life = b.View.m.ended.tombs.Get(moved).Life
				if job, archived := h.at(moved); archived {
					op.GetRetry().Spec, op.GetRetry().Past = entry.SpecOp(jobSpec(string(moved))), PastOp(&job)
				}
				b.ok(op)
				live = append(live, moved)
			}
			return moved
		}
		for range 40 {
			act()
		}
		d := diamond("wf")
		b.run(d)
		b.worker("w", 100)
		b.match()
		for range 10 {
			act()
		}
		there := map[rota.JobID]bool{"wf/n0": true, "wf/n1": true, "wf/n2": true, "wf/n3": true}
		for _, id := range slices.Concat(live, over) {
			there[id] = true
		}
		ends := chance.IntN(12) // when the workflow's first node ends, which releases others
		shown := map[rota.JobID]int{}
		f := rota.JobFilter{Limit: 1 + chance.IntN(5)}
		for pages := 0; ; pages++ {
			page, err := b.View.Jobs().Page(f, h)
			if err != nil {
				t.Fatal(seed, err)
			}
			for _, j := range page.Jobs {
				shown[j.ID]++
			}
			if f.Cursor = page.NextCursor; f.Cursor == "" {
				break
			}
			switch {
			case pages == ends && seed%2 == 0:
				b.ends(rota.VerbComplete, d, "n0")
			case pages == ends:
				b.ok(entry.CancelWorkflowOp("wf"))
			}
			for range chance.IntN(8) {
				if id := act(); id != "" {
					delete(there, id)
				}
			}
		}
		for id := range there {
			if shown[id] != 1 {
				t.Errorf("seed %d: %s was there throughout and is shown %d times", seed, id, shown[id])
			}
		}
		for id, n := range shown {
			if n > 1 {
				t.Errorf("seed %d: %s is shown %d times", seed, id, n)
			}
		}
		if faults := b.Check(); len(faults) > 0 {
			t.Fatal(faults)
		}
	}
}

// TestPage_refusesCursors checks that cursors of another filter, of another cluster or from before a restore, of a
// later moment, and cursors that name no place, are refused.
func TestPage_refusesCursors(t *testing.T) {
	t.Parallel()
	b, h := searched(t)
	f := rota.JobFilter{Limit: 1}
	page, err := b.View.Jobs().Page(f, h)
	if err != nil {
		t.Fatal(err)
	}
	head := b.View.m.Header
	its := filter.Cursor{Part: partLive, Clock: head.Clock, Jobs: head.JobSeq, Ends: head.TombSeq, At: head.JobSeq}
	home := filter.Origin{Cluster: head.Cluster, Incarnation: head.Incarnation}
	if got := its.Text(home, &f); got != page.NextCursor {
		t.Fatalf("got %q, want %q", page.NextCursor, got)
	}
	made := func(change func(*filter.Cursor)) string {
		c := its
		change(&c)
		return c.Text(home, &f)
	}
	for name, cursor := range map[string]string{
		"words": "live/j1", "a part that is none": made(func(c *filter.Cursor) { c.Part = 9 }),
		"no place": made(func(c *filter.Cursor) { c.At = 0 }), "no part": made(func(c *filter.Cursor) { c.Part = 0 }),
		"beyond its submissions": made(func(c *filter.Cursor) { c.At = c.Jobs + 2 }),
		"beyond its ends":        made(func(c *filter.Cursor) { c.Part, c.At = partEnded, c.Ends+2 }),
		"later jobs":             made(func(c *filter.Cursor) { c.Jobs++ }),
		"later ends":             made(func(c *filter.Cursor) { c.Ends++ }),
		"later clock":            made(func(c *filter.Cursor) { c.Clock++ }),
		"another filter":         its.Text(home, &rota.JobFilter{Queue: "mail"}),
		"a restore":              its.Text(filter.Origin{Cluster: head.Cluster, Incarnation: head.Incarnation + 1}, &f),
	} {
		asked := f
		asked.Cursor = cursor
		if _, err := b.View.Jobs().Page(asked, h); rota.KindOf(err) != rota.KindInvalid ||
			rota.ErrorOf(err).Subject != "cursor" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, last := range []filter.Cursor{{Part: partLive, At: 1}, {Part: partWaiting, At: 1},
		{Part: partEnded, At: 1}} {
		f.Cursor = last.Text(home, &f)
		if _, err := b.View.Jobs().Page(f, h); err != nil {
			t.Errorf("%+v: %v", last, err)
		}
	}
}

// at returns the job of an id.
func (h history) at(id rota.JobID) (rota.Job, bool) {
	for _, e := range h {
		if e.Job.ID == id {
			return e.Job, true
		}
	}
	return rota.Job{}, false
}
