package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// An id names one job: different content under the same id is refused, and changes nothing.
func ExampleClient_Submit_sameID() {
	c, ctx, done := connect("sameid")
	defer done()
	job := rota.NewJobSpec("invoice", []byte("2026-11"))
	job.ID, job.Queue = "invoice-2026-11", "sameid"
	if _, err := c.Submit(ctx, job); err != nil {
		fmt.Println(err)
		return
	}
	job.Payload = []byte("2026-12")
	_, err := c.Submit(ctx, job)
	fmt.Println(errors.Is(err, rota.ErrConflict))
	kept, err := c.Job(ctx, job.ID)
	fmt.Println(string(kept.Payload), err)
	// Output:
	// true
	// 2026-11 <nil>
}

// At most one reindexing job is pending: a later submission replaces its payload.
func ExampleClient_Submit_unique() {
	c, ctx, done := connect("unique")
	defer done()
	job := rota.NewJobSpec("reindex", nil)
	job.Queue, job.Delay = "unique", time.Minute
	job.Unique = &rota.Unique{Key: "shop-7", Scope: []string{rota.UniquePending}, OnConflict: rota.UniqueExtend,
		ExtendMax: 10 * time.Minute}
	for i, id := range []rota.JobID{"first", "second", "third"} {
		job.ID, job.Payload = id, []byte(fmt.Sprint("change ", i))
		out, err := c.Submit(ctx, job)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(out[0].ID, out[0].State, out[0].Existed, out[0].Holder == "first")
	}
	waits, err := c.Job(ctx, "first")
	fmt.Println(string(waits.Payload), waits.UniqueHolder, err)
	// Output:
	// first DELAYED false false
	// second DELAYED true true
	// third DELAYED true true
	// change 2 first <nil>
}

// A workflow runs node by node, and is read with its graph once it has ended.
func ExampleClient_WaitWorkflow() {
	c, ctx, done := connect("flow")
	defer done()
	defer work(c, "flow", "step", func(_ context.Context, job *client.Job) (client.Result, error) {
		return client.Result{Output: job.Payload()}, nil
	})()
	first, second := rota.NewNodeSpec("fetch", "step", []byte("a")), rota.NewNodeSpec("load", "step", []byte("b"))
	second.Parents = []string{"fetch"}
	submitted, err := c.SubmitWorkflow(ctx, rota.WorkflowSpec{ID: "nightly", Queue: "flow",
		Nodes: []rota.NodeSpec{first, second}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := c.WaitWorkflow(ctx, submitted.ID); err != nil {
		fmt.Println(err)
		return
	}
	flow, err := c.WorkflowGraph(ctx, submitted.ID)
	for _, n := range flow.Nodes {
		fmt.Println(n.ID, n.State, n.Parents)
	}
	fmt.Println(flow.State, flow.Progress, err)
	// Output:
	// fetch COMPLETED []
	// load COMPLETED [fetch]
	// COMPLETED 100 <nil>
}

// A tenant's limits apply across all queues.
func ExampleClient_SetTenant() {
	c, ctx, done := connect()
	defer done()
	t, err := c.SetTenant(ctx, "ann", []rota.Setting{{Key: "tier", Value: "PRO"}, {Key: "max_concurrent", Value: "8"}})
	fmt.Println(t.ID, t.Tier, t.MaxConcurrent, err)
	// Output: ann PRO 8 <nil>
}

// The mode sets which jobs the cluster admits, with a reason that everyone can read.
func ExampleClient_SetMode() {
	c, ctx, done := connect()
	defer done()
	mode, err := c.SetMode(ctx, rota.ModeReadOnly, "moving the database")
	fmt.Println(mode.Mode, mode.Reason, err)
	_, err = c.Submit(ctx, rota.NewJobSpec("resize", nil))
	fmt.Println(errors.Is(err, rota.ErrMode))
	mode, err = c.SetMode(ctx, rota.ModeNormal, "moved")
	fmt.Println(mode.Mode, err)
	// Output:
	// READ_ONLY moving the database <nil>
	// true
	// NORMAL <nil>
}

// A handler reports its progress; it appears in the job's events.
func ExampleJob_Progress() {
	c, ctx, done := connect("progress")
	defer done()
	seen := make(chan struct{})
	defer work(c, "progress", "resize", func(ctx context.Context, job *client.Job) (client.Result, error) {
		job.Progress(50, "half of it")
		select {
		case <-seen:
		case <-ctx.Done():
		}
		return client.Result{}, nil
	})()
	job := rota.NewJobSpec("resize", nil)
	job.ID, job.Queue = "half", "progress"
	if _, err := c.Submit(ctx, job); err != nil {
		fmt.Println(err)
		return
	}
	filter := rota.EventFilter{Job: job.ID, Kinds: []rota.EventKind{rota.EventJobProgress}, Follow: true}
	for e, err := range c.Events(ctx, filter) {
		fmt.Println(e.Kind, err)
		break
	}
	now, err := c.Job(ctx, job.ID)
	fmt.Println(now.Progress, now.ProgressNote, err)
	close(seen)
	// Output:
	// jobProgress <nil>
	// 50 half of it <nil>
}

// A handler reports what its attempt has used; it is kept with the job.
func ExampleJob_Spend() {
	c, ctx, done := connect("spending")
	defer done()
	defer work(c, "spending", "ask", func(_ context.Context, job *client.Job) (client.Result, error) {
		return client.Result{}, errors.Join(job.Spend("tokens", 7312), job.Spend("usd", 0.04))
	})()
	job := rota.NewJobSpec("ask", nil)
	job.ID, job.Queue, job.Costs = "question", "spending", rota.Costs{"tokens": 8000 * rota.CostUnit}
	if _, err := c.Submit(ctx, job); err != nil {
		fmt.Println(err)
		return
	}
	for ended, err := range c.Wait(ctx, job.ID) {
		fmt.Println(ended.State, ended.Spent, err)
	}
	// Output: COMPLETED tokens=7312,usd=0.04 <nil>
}

// A worker declines a job that it cannot do now: the job is queued again, and the attempt does not count.
func ExampleDecline() {
	c, ctx, done := connect("declined")
	defer done()
	leases := 0
	defer work(c, "declined", "resize", func(context.Context, *client.Job) (client.Result, error) {
		if leases++; leases == 1 {
			return client.Result{}, client.Decline(errors.New("the disk is full"))
		}
		return client.Result{}, nil
	})()
	ended := run(ctx, c, "declined", "")
	fmt.Println(ended.State, leases, ended.Attempt)
	// Output: COMPLETED 2 0
}

// A queue that nothing refers to can be deleted; its pending jobs may move to another queue.
func ExampleClient_DrainQueue() {
	c, ctx, done := connect("old", "new")
	defer done()
	job := rota.NewJobSpec("resize", nil)
	job.ID, job.Queue = "drained-1", "old"
	if _, err := c.Submit(ctx, job); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(errors.Is(c.DeleteQueue(ctx, "old"), rota.ErrConflict))
	if err := c.DrainQueue(ctx, "old", "new", nil); err != nil {
		fmt.Println(err)
		return
	}
	moved, err := c.Job(ctx, "drained-1")
	fmt.Println(moved.Queue, err)
	// Output:
	// true
	// new <nil>
}

// Jobs that name the same account run one at a time in the order of their submission.
func ExampleKeys_SetRule() {
	c, ctx, done := connect()
	defer done()
	rule := rota.KeyRule{Name: "account", Sequence: rota.SequenceBlock}
	fmt.Println(c.Keys().SetRule(ctx, rule))
	for range 2 {
		spec := rota.NewJobSpec("debit", nil)
		spec.Keys = []string{"account:7"}
		if _, err := c.Submit(ctx, spec); err != nil {
			fmt.Println(err)
		}
	}
	states, err := c.Keys().State(ctx, rota.DefaultTenant, "account:7")
	fmt.Println(len(states), states[0].Jobs, err)
	for key, err := range c.Keys().List(ctx, rota.KeyFilter{Limit: 10}) {
		fmt.Println(key.Key, key.Jobs, err)
	}
	rules, err := client.Collect(c.Keys().Rules(ctx))
	fmt.Println(rules[0].Name, rules[0].Sequence, err)
	fmt.Println(errors.Is(c.Keys().Skip(ctx, rota.KeyState{Key: "account:8", Blocker: "j"}), rota.ErrNotFound))
	fmt.Println(c.Keys().DeleteRule(ctx, "", "account", ""))
	// Output:
	// <nil>
	// 1 2 <nil>
	// account:7 2 <nil>
	// account block <nil>
	// true
	// <nil>
}

// A tenant whose settings are deleted has the default limits again.
func ExampleClient_DeleteTenant() {
	c, ctx, done := connect()
	defer done()
	if _, err := c.SetTenant(ctx, "bob", []rota.Setting{{Key: "max_concurrent", Value: "8"}}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.DeleteTenant(ctx, "bob"))
	t, err := c.Tenant(ctx, "bob")
	fmt.Println(t.MaxConcurrent, err)
	// Output:
	// <nil>
	// 0 <nil>
}

// Deleting a missing worker succeeds.
func ExampleClient_DeleteWorker() {
	c, ctx, done := connect()
	defer done()
	fmt.Println(c.DeleteWorker(ctx, "gpu-7"))
	// Output: <nil>
}
