package fsm

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
)

func TestPage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.every = 20
	for i := range 25 {
		b.submit(fmt.Sprintf("j%02d", i), func(s *rota.JobSpec) { s.Tenant = rota.TenantID(fmt.Sprint("t", i%2)) })
	}
	for i := 0; i < 25; i += 3 {
		b.ok(cancelOp(fmt.Sprintf("j%02d", i)))
	}
	jobs := b.View.Jobs()
	walk := func(f rota.JobFilter) (n int) {
		t.Helper()
		seen := map[rota.JobID]bool{}
		for range 100 {
			page, err := jobs.Page(f, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Jobs) > f.Limit {
				t.Fatalf("a page of %d has %d jobs", f.Limit, len(page.Jobs))
			}
			for _, j := range page.Jobs {
				if seen[j.ID] {
					t.Fatalf("job %s is listed twice", j.ID)
				}
				seen[j.ID] = true
			}
			if f.Cursor = page.NextCursor; f.Cursor == "" {
				return len(seen)
			}
		}
		t.Fatal("the pages do not end")
		return 0
	}
	for limit := 1; limit < 30; limit++ {
		for _, c := range []struct {
			filter rota.JobFilter
			want   int
		}{
			{rota.JobFilter{}, 25}, {rota.JobFilter{State: rota.JobQueued}, 16},
			{rota.JobFilter{State: rota.JobCancelled}, 9},
			{rota.JobFilter{Tenant: "t0"}, 13}, {rota.JobFilter{Queue: "nowhere"}, 0},
			{rota.JobFilter{State: rota.JobRunning}, 0},
			{rota.JobFilter{Type: "work", Tenant: "t1", State: rota.JobCancelled}, 4},
		} {
			c.filter.Limit = limit
			if got := walk(c.filter); got != c.want {
				t.Fatalf("pages of %d with %+v hold %d jobs, want %d", limit, c.filter, got, c.want)
			}
		}
	}
	for _, cursor := range []string{"x", "live", "else/j01", "/"} {
		if _, err := jobs.Page(rota.JobFilter{Cursor: cursor}, nil); rota.KindOf(err) != rota.KindInvalid {
			t.Fatalf("cursor %q: %v", cursor, err)
		}
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	b := busyBench(t)
	c, sum := b.View.Counts(), rota.JobCounts{}
	for _, q := range b.View.Queues() {
		one, ok := b.View.Queue(q.Name)
		if !ok || one.Pending != q.Queued+q.Delayed+q.Blocked || one.Queued != q.Queued {
			t.Fatalf("queue %+v, asked alone %+v", q, one)
		}
		sum.Queued, sum.Completed, sum.Cancelled = sum.Queued+q.Queued, sum.Completed+int64(
			q.CompletedTotal), sum.Cancelled+int64(q.CancelledTotal)
	}
	if c.Queued != sum.Queued || c.Completed != sum.Completed || c.Cancelled != sum.Cancelled || c.Cancelled != 1 {
		t.Fatalf("counts %+v, by queue %+v", c, sum)
	}
	if _, ok := b.View.Queue("nowhere"); ok || b.View.JobState("nothing") != rota.JobNone ||
		b.View.JobState("cancelled") != rota.JobCancelled {
		t.Fatal("a missing queue or job is known")
	}
	if all, n := len(b.View.Workers()), b.View.WorkerCount(); n == 0 || int64(all) != n {
		t.Fatalf("%d workers of %d", all, n)
	}
	b.worker("gone", 1)
	live := b.View.WorkerCount()
	b.ok(statusOp("gone", rota.WorkerRetired, 0))
	if all, n := len(b.View.Workers()), b.View.WorkerCount(); n != live-1 || int64(all) != live {
		t.Fatalf("one of %d workers is retired: %d are counted and %d known", live, n, all)
	}
}
