package client_test

import (
	"context"
	"fmt"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

func Example() {
	c, err := client.Dial([]string{"127.0.0.1:6470", "127.0.0.2:6470"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	jobs, err := c.Submit(ctx, rota.NewJobSpec("resize", []byte(`{"width":640}`)))
	if err != nil {
		fmt.Println(err)
		return
	}
	for job, err := range c.Wait(ctx, jobs[0].ID) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(job.ID, job.State, string(job.Output))
	}
}

func ExampleWorker() {
	type resize struct {
		Width int `json:"width"`
	}
	c, err := client.Dial([]string{"127.0.0.1:6470"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	spec := rota.WorkerSpec{Queues: []rota.QueueName{rota.DefaultQueue}, Slots: 8, Prefetch: 8}
	w, err := client.NewWorker(c, spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	client.Define[resize, string]("resize").Handle(w, func(ctx context.Context, job *client.Job, in resize) (string,
		error) {
		if in.Width <= 0 {
			return "", client.NoRetry(fmt.Errorf("width must be at least 1, got %d", in.Width))
		}
		// Pass job.Token() to every other system that is written to, so that it can reject an older attempt that wakes
		// up late.
		return fmt.Sprintf("resized to %d under %s", in.Width, job.Token()), ctx.Err()
	})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := w.Run(ctx); err != nil { // drains when ctx ends
		fmt.Println(err)
	}
}

// sum is a handler that adds up its parents' outputs.
func sum(ctx context.Context, job *client.Job) (client.Result, error) {
	parents, err := job.Parents(ctx)
	if err != nil {
		return client.Result{}, err
	}
	total := 0
	for _, p := range parents {
		n, err := strconv.Atoi(string(p.Output))
		if err != nil {
			return client.Result{}, client.NoRetry(fmt.Errorf("output of %s: %w", p.Node, err))
		}
		total += n
	}
	return client.Result{Output: []byte(strconv.Itoa(total))}, nil
}

// A fan-out of three nodes and one that waits for all of them: the handler of the last one reads the outputs of the
// others.
func ExampleClient_SubmitWorkflow() {
	c, ctx, done := connect("counts")
	defer done()
	defer work(c, "counts", "", func(ctx context.Context, job *client.Job) (client.Result, error) {
		if job.Type() == "sum" {
			return sum(ctx, job)
		}
		return client.Result{Output: job.Payload()}, nil
	})()
	last := rota.NewNodeSpec("sum", "sum", nil)
	spec := rota.WorkflowSpec{Queue: "counts", OnFailure: rota.FailureFailFast}
	for i := range 3 {
		part := rota.NewNodeSpec(fmt.Sprintf("count-%d", i), "count", []byte(strconv.Itoa(20+i)))
		spec.Nodes = append(spec.Nodes, part)
		last.Parents = append(last.Parents, part.ID)
	}
	spec.Nodes = append(spec.Nodes, last)
	submitted, err := c.SubmitWorkflow(ctx, spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	flow, err := c.WaitWorkflow(ctx, submitted.ID)
	if err != nil {
		fmt.Println(err)
		return
	}
	job, err := c.Job(ctx, rota.NodeJobID(flow.ID, "sum"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(flow.State, string(job.Output))
	// Output: COMPLETED 63
}

// A handler is tested without a cluster: the test sets the parents' outputs.
func ExampleWithParents() {
	a := rota.Assignment{Spec: rota.JobSpec{ID: rota.NodeJobID("nightly", "sum")}}
	job := client.NewJob(a, nil, client.WithParents(
		rota.ParentOutput{Node: "count-0", Output: rota.Blob("20")},
		rota.ParentOutput{Node: "count-1", Output: rota.Blob("22")}))
	workflow, node, _ := job.Workflow()
	result, err := sum(context.Background(), job)
	fmt.Println(workflow, node, string(result.Output), err)
	// Output: nightly sum 42 <nil>
}

// A handler determines how much there is to do: nodes that wait for its node also wait for the parts that it adds.
func ExampleResult() {
	c, ctx, done := connect("parts")
	defer done()
	defer work(c, "parts", "", func(ctx context.Context, job *client.Job) (client.Result, error) {
		switch job.Type() {
		case "split":
			more := &rota.Growth{}
			for i := range 3 {
				part := rota.NewNodeSpec(fmt.Sprintf("part-%d", i), "count", []byte(strconv.Itoa(10+i)))
				more.Children = append(more.Children, part)
			}
			return client.Result{Output: []byte("9"), Children: more}, nil
		case "sum":
			return sum(ctx, job) // of the node that split, and of its parts
		}
		return client.Result{Output: job.Payload()}, nil
	})()
	submitted, err := c.SubmitWorkflow(ctx, rota.WorkflowSpec{Queue: "parts", Nodes: []rota.NodeSpec{
		rota.NewNodeSpec("split", "split", nil), rota.NewNodeSpec("sum", "sum", nil, "split")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	flow, err := c.WaitWorkflow(ctx, submitted.ID)
	if err != nil {
		fmt.Println(err)
		return
	}
	job, err := c.Job(ctx, rota.NodeJobID(flow.ID, "sum"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(flow.State, flow.NodeCount, string(job.Output))
	// Output: COMPLETED 5 42
}

// A person lets a workflow continue: the gate's output is that of the signal.
func ExampleClient_SignalWorkflow() {
	c, ctx, done := connect("releases")
	defer done()
	approve := rota.NodeSpec{ID: "approve", Gate: &rota.Gate{Timeout: 24 * time.Hour}}
	submitted, err := c.SubmitWorkflow(ctx, rota.WorkflowSpec{Queue: "releases", Nodes: []rota.NodeSpec{approve}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = c.SignalWorkflow(ctx, rota.Signal{Workflow: submitted.ID, Node: "approve", Payload: []byte("approved")})
	if err != nil {
		fmt.Println(err)
		return
	}
	flow, err := c.WaitWorkflow(ctx, submitted.ID)
	fmt.Println(flow.State, err)
	// Output: COMPLETED <nil>
}
