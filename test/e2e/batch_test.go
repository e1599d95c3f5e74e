package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// TestBatches: leaders are killed while a batch is filled and its jobs end; its callback is submitted once, with the
// outcomes of the jobs.
func TestBatches(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	kill := func() {
		leader := c.leader(t)
		leader.Kill()
		leader.start(t)
		c.awaitReady()
	}
	c.rota(t, "batch", "open", "b", "--type", "report", "--priority", "2").want(t, 0)
	kill()
	for i := range 4 {
		c.rota(t, "job", "submit", "--type", "t", "--id", fmt.Sprint("j", i), "--batch", "b").want(t, 0)
	}
	c.rota(t, "batch", "seal", "b").want(t, 0)
	c.rota(t, "job", "submit", "--type", "t", "--batch", "b").want(t, 4)
	c.rota(t, "job", "submit", "--type", "t", "--batch", "none").want(t, 3)
	kill()
	c.rota(t, "batch", "wait", "b", "--timeout", "1s").want(t, 5)
	for i := range 4 {
		c.rota(t, "job", "cancel", fmt.Sprint("j", i)).want(t, 0)
	}
	leader := c.leader(t)
	leader.Kill() // with the entry that ended the batch just committed
	c.rota(t, "batch", "wait", "b", "--timeout", "60s").want(t, 6)
	leader.start(t)
	c.awaitReady()
	c.rota(t, "job", "retry", "j0").want(t, 0)
	c.rota(t, "job", "cancel", "j0").want(t, 0)
	b := decode[rota.Batch](t, c.rota(t, "batch", "show", "b", "-o", "json").want(t, 0))
	if b.State != rota.BatchFinished || b.Total != 4 || b.Cancelled != 4 || b.Callback != "b@done" {
		t.Errorf("%+v", b)
	}
	done := decode[rota.Job](t, c.rota(t, "job", "show", "b@done", "-o", "json").want(t, 0))
	if done.State != rota.JobQueued || done.Labels["rota.total"] != "4" || done.Labels["rota.cancelled"] != "4" ||
		done.Priority != 2 || done.Life != 0 {
		t.Errorf("%+v", done)
	}
	if told := c.rota(t, "events", "tail", "--kind", "batchFinished", "-o", "jsonl").want(t,
		0).stdout; strings.Count(told, "\n") != 1 {
		t.Errorf("the end is not reported exactly once: %s", told)
	}
	c.rota(t, "job", "list", "--filter", "batch=b state=CANCELLED", "--count").want(t, 0)
}
