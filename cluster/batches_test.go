package cluster

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// TestBatches_leadersChange: leaders stop while jobs of a batch are submitted and end. A node that awaits the end is
// notified, and the callback is submitted once.
func TestBatches_leadersChange(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	callback := rota.NewJobSpec("t", nil)
	callback.Tenant = rota.DefaultTenant
	if _, err := b.leader().OpenBatch(within(t, ample), rota.BatchSpec{ID: "b", Size: 3,
		Callback: callback}); err != nil {
		t.Fatal(err)
	}
	if got := gauges(t, b.leader(), "rota_batches"); got["OPEN"] != 1 || got["FINISHED"] != 0 {
		t.Errorf("batches are %v", got)
	}
	for i := range 3 {
		job := specs(fmt.Sprint("j", i), 1)[0]
		job.Batch = "b"
		submitAll(t, b.leader(), []rota.JobSpec{job})
		gone := b.leader().cfg.Node
		b.stop(gone)
		if o, err := b.leader().Cancel(within(t, ample), []rota.JobID{job.ID}); err != nil || o[0].Err != nil {
			t.Fatal(o, err)
		}
		b.start(gone)
	}
	for _, id := range b.ids() {
		x, err := b.node(id).AwaitBatch(within(t, ample), "b")
		if err != nil || x.Total != 3 || x.Cancelled != 3 || x.Callback != "b@done" {
			t.Fatalf("%s: %+v, %v", id, x, err)
		}
	}
	done, _, err := b.leader().Job(within(t, ample), "b@done", peer.ReadOptions{})
	if err != nil || done.State != rota.JobQueued || done.Labels["rota.cancelled"] != "3" {
		t.Fatalf("%+v, %v", done, err)
	}
	if got := gauges(t, b.leader(), "rota_batches"); got["OPEN"] != 0 || got["SEALED"] != 0 || got["FINISHED"] != 1 ||
		len(got) != 3 {
		t.Errorf("batches are %v", got)
	}
	auditedBackup(t, b.leader(), 0)
	b.sound()
}

// TestBatches_pages: lists are paged, and a wait ends with a later end.
func TestBatches_pages(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n, ctx := b.leader(), within(t, ample)
	callback := rota.NewJobSpec("t", nil)
	callback.Tenant = rota.DefaultTenant
	for i := range 5 {
		if _, err := n.OpenBatch(ctx, rota.BatchSpec{ID: rota.BatchID(fmt.Sprint("b", i)),
			Callback: callback}); err != nil {
			t.Fatal(err)
		}
	}
	seen, next := "", rota.BatchID("")
	for {
		page, _, err := n.Batches(ctx, "", next, 2, peer.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range page.Batches {
			seen += string(x.ID) + " "
		}
		if seen += "| "; page.Next == "" {
			break
		}
		next = page.Next
	}
	if seen != "b0 b1 | b2 b3 | b4 | " {
		t.Error(seen)
	}
	theirs := rota.BatchSpec{ID: "b5", Callback: callback}
	if _, err := n.OpenBatch(called(ctx, rota.Anonymous), theirs); err != nil {
		t.Fatal(err)
	}
	for by, want := range map[rota.Principal]int{"": 6, rota.Anonymous: 1, rota.Local: 0} {
		if page, _, err := n.Batches(ctx, by, "", 0, peer.ReadOptions{}); err != nil || len(page.Batches) != want {
			t.Errorf("by %q: %+v, %v", by, page, err)
		}
	}
	ended := make(chan error, 1)
	go func() {
		x, err := n.AwaitBatch(ctx, "b3")
		if err == nil && x.State != rota.BatchFinished {
			err = fmt.Errorf("%+v", x)
		}
		ended <- err
	}()
	b.eventually("the wait has begun", func() bool {
		n.replica.Hub.Mu.Lock()
		defer n.replica.Hub.Mu.Unlock()
		return len(n.replica.Hub.Ends["b3@done"]) == 1
	})
	if x, err := n.SealBatch(ctx, "b3"); err != nil || x.State != rota.BatchFinished {
		t.Fatal(x, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := n.SealBatch(ctx, "none"); rota.KindOf(err) != rota.KindNotFound {
		t.Error(err)
	}
}
