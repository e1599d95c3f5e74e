package client

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
)

// flowOf returns a workflow of a chain of nodes with payloads.
func flowOf(nodes, payload int) rota.WorkflowSpec {
	spec := rota.WorkflowSpec{Queue: "q", OnFailure: rota.FailureContinue, Labels: map[string]string{"k": "v"}}
	for i := range nodes {
		n := rota.NewNodeSpec(fmt.Sprint("n", i), "t", make([]byte, payload))
		if i > 0 {
			n.Parents = []string{fmt.Sprint("n", i-1)}
		}
		spec.Nodes = append(spec.Nodes, n)
	}
	return spec
}

func TestSubmitWorkflow_asksAnotherNodeWithTheSameID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 3)
		defer stop()
		var mu sync.Mutex
		var ids []rota.WorkflowID
		take := func(messages []*rotav1.SubmitWorkflowRequest) rota.WorkflowSpec {
			spec, err := joined(messages)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, spec.ID)
			return spec
		}
		f.nodes[0].flows.onSubmit = func(ctx context.Context, m []*rotav1.SubmitWorkflowRequest) (
			*rotav1.WorkflowSubmitted, error) {
			take(m)
			<-ctx.Done() // cut off: the outcome is unknown
			return nil, ctx.Err()
		}
		f.nodes[1].server.Stop() // dead
		f.nodes[2].flows.onSubmit = func(_ context.Context, m []*rotav1.SubmitWorkflowRequest) (
			*rotav1.WorkflowSubmitted, error) {
			spec := take(m)
			return &rotav1.WorkflowSubmitted{Id: string(spec.ID), State: "RUNNING", Existed: true,
				Nodes: int64(len(spec.Nodes)), Index: 4}, nil
		}
		start := time.Now()
		out, err := f.client.SubmitWorkflow(t.Context(), flowOf(3, 10))
		synctest.Wait()
		if err != nil || out.State != rota.WorkflowRunning || out.Existed || out.Nodes != 3 || out.Index != 4 {
			t.Fatalf("%+v, %v", out, err)
		}
		mu.Lock()
		seen := slices.Clone(ids)
		mu.Unlock()
		if len(seen) != 2 || seen[0] != seen[1] || seen[0] != out.ID || len(out.ID) != 26 {
			t.Errorf("ids %v, printed %s", seen, out.ID)
		}
		if took := time.Since(start); took > 2*maxAnswer {
			t.Errorf("the silent node was waited for %v", took)
		}
		mine := flowOf(1, 0)
		mine.ID = "mine"
		if out, err = f.client.SubmitWorkflow(t.Context(), mine); err != nil || out.ID != "mine" || !out.Existed {
			t.Errorf("a given id: %+v, %v", out, err)
		}
	})
}

func TestSubmitWorkflow_sendsAllInPieces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		want := flowOf(40, 100<<10)
		want.ID = "big"
		wide := rota.NewNodeSpec("wide", "t", nil)
		for i := range 9_000 { // as parents they take 1.7 MB, which fits no message
			wide.Parents = append(wide.Parents, fmt.Sprintf("p%d-%s", i, strings.Repeat("x", 180)))
		}
		want.Nodes = append(want.Nodes, wide)
		want.Edges = []rota.Edge{{From: "n0", To: "n7"}}
		var got rota.WorkflowSpec
		pieces := 0
		f.nodes[0].flows.onSubmit = func(_ context.Context, m []*rotav1.SubmitWorkflowRequest) (
			*rotav1.WorkflowSubmitted, error) {
			pieces = len(m)
			for i := range m {
				if n := proto.Size(m[i]); n > limits.MaxMessageBytes {
					t.Errorf("message %d has %d bytes", i, n)
				}
			}
			var err error
			if got, err = joined(m); err != nil {
				return nil, words.ToStatus(err)
			}
			return &rotav1.WorkflowSubmitted{Id: "big"}, nil
		}
		if _, err := f.client.SubmitWorkflow(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		for i, p := range wide.Parents {
			if got.Edges[i] != (rota.Edge{From: p, To: "wide"}) {
				t.Fatalf("edge %d is %v", i, got.Edges[i])
			}
		}
		got.Edges, got.Nodes[40].Parents = got.Edges[len(wide.Parents):], wide.Parents
		if !reflect.DeepEqual(got.Edges, want.Edges) || got.ID != "big" || got.OnFailure != rota.FailureContinue ||
			got.Labels["k"] != "v" ||
			len(got.Nodes) != 41 || !slices.EqualFunc(got.Nodes, want.Nodes, func(a, b rota.NodeSpec) bool {
			return a.ID == b.ID && slices.Equal(a.Parents, b.Parents) && string(a.Payload) == string(b.Payload) &&
				a.Priority == b.Priority
		}) {
			t.Errorf("got %d nodes, edges %v", len(got.Nodes), got.Edges)
		}
		if pieces < 6 || pieces > 8 {
			t.Errorf("%d messages", pieces)
		}
		want.Nodes[3].Payload = make([]byte, 2<<20)
		if _, err := f.client.SubmitWorkflow(t.Context(), want); rota.KindOf(err) != rota.KindInvalid ||
			!strings.Contains(err.Error(), `"n3"`) {
			t.Errorf("a node that fits into no message: %v", err)
		}
	})
}

func TestSubmitWorkflow_tellsARefusal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 2)
		defer stop()
		for _, refusal := range []*rota.Error{
			rota.Refusef(rota.KindInvalid, "nodes[1].id", "twice"),
			{Kind: rota.KindExhausted, Op: "submit", Subject: "queue_cap", Text: "full", RetryAfter: time.Second},
		} {
			asked := 0
			for _, n := range f.nodes { // in the middle of the stream, while the client still sends
				n.flows.onReceive = func(m *rotav1.SubmitWorkflowRequest) error {
					if m.GetWorkflow() != nil {
						return nil
					}
					asked++
					return words.ToStatus(refusal)
				}
			}
			_, err := f.client.SubmitWorkflow(t.Context(), flowOf(100, 100<<10))
			if rota.KindOf(err) != refusal.Kind || rota.RetryAfterOf(err) != refusal.RetryAfter || asked != 1 {
				t.Errorf("asked %d times, got %v", asked, err)
			}
		}
	})
}

// showOf returns a workflow of n nodes, each with the previous one as its parent.
func showOf(n, perPage int) func(*rotav1.GetWorkflowRequest, grpc.ServerStreamingServer[rotav1.ShowWorkflowResponse]) error {
	return func(r *rotav1.GetWorkflowRequest, s grpc.ServerStreamingServer[rotav1.ShowWorkflowResponse]) error {
		head := &rotav1.ShowWorkflowResponse{Workflow: &rotav1.Workflow{Id: r.GetId(), State: "RUNNING",
			NodeCount: int64(n)}, At: &rotav1.ReadAt{Index: 5}, CriticalPath: []uint32{0, uint32(n - 1)}}
		err := s.Send(head)
		for i := 0; i < n && err == nil; i += perPage {
			page := &rotav1.ShowWorkflowResponse{}
			for k := i; k < min(n, i+perPage); k++ {
				node := &rotav1.WorkflowNode{Id: fmt.Sprint("n", k), State: "BLOCKED"}
				if k > 0 {
					node.Parents = []uint32{uint32(k - 1)}
				}
				page.Nodes = append(page.Nodes, node)
			}
			err = s.Send(page)
		}
		return err
	}
}

func TestWorkflow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 2)
		defer stop()
		f.nodes[0].flows.onShow = func(r *rotav1.GetWorkflowRequest, s grpc.ServerStreamingServer[rotav1.ShowWorkflowResponse]) error {
			// It dies in the middle: the part that it sent so far must not be visible.
			return errors.Join(s.Send(&rotav1.ShowWorkflowResponse{Workflow: &rotav1.Workflow{Id: "x", NodeCount: 9}}),
				s.Send(&rotav1.ShowWorkflowResponse{Nodes: []*rotav1.WorkflowNode{{Id: "gone"}}}))
		}
		f.nodes[1].flows.onShow = showOf(7, 3)
		var at rota.ReadAt
		flow, err := f.client.WorkflowGraph(t.Context(), "f1", Seen(&at))
		if err != nil || at.Index != 5 || len(flow.Nodes) != 7 || flow.State != rota.WorkflowRunning {
			t.Fatalf("%+v, %v, %v", flow, at, err)
		}
		if n := flow.Nodes[6]; n.Job != "f1/n6" || !slices.Equal(n.Parents, []string{"n5"}) ||
			n.State != rota.NodeState(rota.JobBlocked) {
			t.Errorf("the last node is %+v", n)
		}
		if !slices.Equal(flow.CriticalPath, []string{"n0", "n6"}) {
			t.Errorf("the critical path is %v", flow.CriticalPath)
		}
		f.nodes[1].flows.onGet = func(r *rotav1.GetWorkflowRequest) (*rotav1.GetWorkflowResponse, error) {
			return &rotav1.GetWorkflowResponse{Workflow: &rotav1.Workflow{Id: r.GetId(), Progress: 40},
				At: &rotav1.ReadAt{Index: r.GetRead().GetMinIndex()}}, nil
		}
		flow, err = f.client.Workflow(t.Context(), "f2", AtLeast(8), Seen(&at))
		if err != nil || flow.ID != "f2" || flow.Progress != 40 || at.Index != 8 {
			t.Errorf("without nodes: %+v, %v, %v", flow, at, err)
		}
		next := ""
		flows, err := Collect(f.client.Workflows(t.Context(),
			rota.WorkflowFilter{State: rota.WorkflowFailed, Cursor: "c", Limit: 1},
			AtLeast(3), Seen(&at), Next(&next)))
		if err != nil || at.Index != 3 || len(flows) != 1 || flows[0].ID != "c+" ||
			flows[0].State != rota.WorkflowFailed || next != "next" {
			t.Errorf("list: %+v, %v, %v, %q", flows, at, err, next)
		}
		if flow, err = f.client.CancelWorkflow(t.Context(), "f1"); err != nil || flow.Ending != rota.WorkflowCancelled {
			t.Errorf("cancel: %+v, %v", flow, err)
		}
		if flow, err = f.client.RetryWorkflow(t.Context(), "f1", "n3"); err != nil || flow.Runs != 2 ||
			flow.FailedNode != "n3" {
			t.Errorf("retry: %+v, %v", flow, err)
		}
		s, err := f.client.SignalWorkflow(t.Context(), rota.Signal{Workflow: "f1", Node: "n3", Refuse: true})
		if err != nil || s.Workflow != "f1" || s.Node != "n3" || s.ID == "" || !s.Existed {
			t.Errorf("signal: %+v, %v", s, err)
		}
	})
}

// TestRetryWorkflow_saysWhichRunItFollows loses the answer to a successful retry: the next try, at another node, still
// names the run before it.
func TestRetryWorkflow_saysWhichRunItFollows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 2)
		defer stop()
		runs, reads := int32(3), 0
		var told []int32
		for i, n := range f.nodes {
			n.flows.onGet = func(r *rotav1.GetWorkflowRequest) (*rotav1.GetWorkflowResponse, error) {
				reads++
				return &rotav1.GetWorkflowResponse{Workflow: &rotav1.Workflow{Id: r.GetId(), Runs: runs}}, nil
			}
			n.flows.onRetry = func(r *rotav1.RetryWorkflowRequest) (*rotav1.Workflow, error) {
				told = append(told, r.GetRuns())
				runs = max(runs, r.GetRuns()+1)
				if i == 0 {
					return nil, words.ToStatus(rota.Refusef(rota.KindUnavailable, "", "the answer is lost"))
				}
				return &rotav1.Workflow{Id: r.GetId(), State: "RUNNING", Runs: runs, FailedNode: r.GetFrom()}, nil
			}
		}
		flow, err := f.client.RetryWorkflow(t.Context(), "f1", "n3")
		if err != nil || flow.Runs != 4 || flow.FailedNode != "n3" {
			t.Errorf("%+v, %v", flow, err)
		}
		if !slices.Equal(told, []int32{3, 3}) || reads != 1 {
			t.Errorf("the nodes received %v, after %d reads", told, reads)
		}
	})
}

// TestWorkflow_refusesAFault checks that an inconsistent answer of a node is rejected.
func TestWorkflow_refusesAFault(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		for name, second := range map[string]*rotav1.ShowWorkflowResponse{
			"parent": {Nodes: []*rotav1.WorkflowNode{{Id: "a", Parents: []uint32{7}}}},
			"state":  {Nodes: []*rotav1.WorkflowNode{{Id: "a", State: "LOST"}}},
		} {
			f.nodes[0].flows.onShow = func(r *rotav1.GetWorkflowRequest, s grpc.ServerStreamingServer[rotav1.ShowWorkflowResponse]) error {
				return errors.Join(s.Send(&rotav1.ShowWorkflowResponse{Workflow: &rotav1.Workflow{NodeCount: 1}}),
					s.Send(second))
			}
			if _, err := f.client.WorkflowGraph(t.Context(), "f1"); err == nil {
				t.Errorf("%s: it was accepted", name)
			}
		}
	})
}

func TestWaitWorkflow(t *testing.T) {
	open := func(ctx context.Context, r *rotav1.WaitWorkflowRequest) (*rotav1.Workflow, error) {
		deadline, _ := ctx.Deadline()
		if !pause(ctx, time.Until(deadline)-100*time.Millisecond) {
			return nil, ctx.Err()
		}
		return nil, words.ToStatus(rota.Refusef(rota.KindTimeout, r.GetId(), "not over yet"))
	}
	over := func(context.Context, *rotav1.WaitWorkflowRequest) (*rotav1.Workflow, error) {
		return &rotav1.Workflow{Id: "f1", State: "FAILED"}, nil
	}
	unknown := func(_ context.Context, r *rotav1.WaitWorkflowRequest) (*rotav1.Workflow, error) {
		return nil, words.ToStatus(rota.Refusef(rota.KindNotFound, r.GetId(), "not known"))
	}
	noLeader := func(context.Context, *rotav1.WaitWorkflowRequest) (*rotav1.Workflow, error) {
		return nil, words.ToStatus(rota.Refusef(rota.KindUnavailable, "", "no leader"))
	}
	t.Run("asks_other_nodes_until_it_is_over", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f, stop := setup(t, 4)
			defer stop()
			f.nodes[0].flows.onWait = open // cut off from the others: it would answer this forever
			f.nodes[1].server.Stop()
			f.nodes[2].flows.onWait, f.nodes[3].flows.onWait = noLeader, over
			start := time.Now()
			flow, err := f.client.WaitWorkflow(t.Context(), "f1")
			if took := time.Since(start); err != nil || flow.State != rota.WorkflowFailed ||
				took > maxWait+time.Second {
				t.Errorf("after %v: %+v, %v", took, flow, err)
			}
		})
	})
	t.Run("tells_the_callers_time_from_the_clusters", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f, stop := setup(t, 1)
			defer stop()
			for want, answer := range map[rota.Kind]func(context.Context, *rotav1.WaitWorkflowRequest) (
				*rotav1.Workflow, error){
				rota.KindTimeout: open, rota.KindUnavailable: noLeader} {
				f.nodes[0].flows.onWait = answer
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				start := time.Now()
				if _, err := f.client.WaitWorkflow(ctx, "f1"); rota.KindOf(err) != want ||
					time.Since(start) != time.Minute {
					t.Errorf("after %v: %v, want %v", time.Since(start), err, want)
				}
				cancel()
			}
		})
	})
	t.Run("believes_only_a_linearizable_absence", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f, stop := setup(t, 1)
			defer stop()
			asked := 0
			f.nodes[0].flows.onWait = unknown
			f.nodes[0].flows.onGet = func(r *rotav1.GetWorkflowRequest) (*rotav1.GetWorkflowResponse, error) {
				if asked++; r.GetRead().GetStale() {
					t.Error("a stale reading was accepted")
				}
				if r.GetId() == "nobody" {
					return nil, words.ToStatus(rota.Refusef(rota.KindNotFound, r.GetId(), "not known"))
				}
				f.nodes[0].flows.onWait = over
				return &rotav1.GetWorkflowResponse{Workflow: &rotav1.Workflow{Id: r.GetId(), State: "RUNNING"}}, nil
			}
			if _, err := f.client.WaitWorkflow(t.Context(), "nobody"); rota.KindOf(err) != rota.KindNotFound ||
				asked != 1 {
				t.Errorf("asked %d times: %v", asked, err)
			}
			if flow, err := f.client.WaitWorkflow(t.Context(), "f1"); err != nil || flow.State != rota.WorkflowFailed ||
				asked != 2 {
				t.Errorf("a replica that lagged: %+v, %v, asked %d times", flow, err, asked)
			}
		})
	})
	t.Run("is_given_up", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f, stop := setup(t, 1)
			defer stop()
			f.nodes[0].flows.onWait = open
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			if _, err := f.client.WaitWorkflow(ctx, "f1"); rota.KindOf(err) != rota.KindTimeout ||
				!errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	})
}

// outputs sends count outputs, then ends with err.
func outputs(
	count int, err error) func(*rotav1.ParentOutputsRequest, grpc.ServerStreamingServer[rotav1.ParentOutput]) error {
	return func(r *rotav1.ParentOutputsRequest, s grpc.ServerStreamingServer[rotav1.ParentOutput]) error {
		for i := range count {
			p := rota.ParentOutput{Node: fmt.Sprint("p", i), Job: rota.JobID(r.GetJob()),
				Output: rota.Blob(fmt.Sprint(i))}
			if err := s.Send(words.ParentOutputToWire(&p)); err != nil {
				return err
			}
		}
		return err
	}
}

func TestParentOutputs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 3)
		defer stop()
		f.nodes[0].flows.onOutputs, f.nodes[1].flows.onOutputs = outputs(3, errStream), outputs(5, nil)
		all, err := Collect(f.client.ParentOutputs(t.Context(), "f1/sum"))
		if err != nil || len(all) != 5 {
			t.Fatalf("%+v, %v", all, err)
		}
		for i, p := range all {
			if p.Node != fmt.Sprint("p", i) || string(p.Output) != fmt.Sprint(i) || p.Job != "f1/sum" {
				t.Errorf("output %d is %+v", i, p)
			}
		}
		gone := words.ToStatus(rota.Refusef(rota.KindOutOfRange, "p2", "no longer kept"))
		answer := func(f *fakeFlows, with func(*rotav1.ParentOutputsRequest, grpc.ServerStreamingServer[rotav1.ParentOutput]) error) {
			f.Lock()
			defer f.Unlock()
			f.onOutputs = with
		}
		answer(&f.nodes[1].flows, outputs(1, gone))
		if _, err := Collect(f.client.ParentOutputs(t.Context(), "f1/sum")); rota.KindOf(err) != rota.KindOutOfRange {
			t.Errorf("a refusal: %v", err)
		}
		answer(&f.nodes[1].flows,
			func(_ *rotav1.ParentOutputsRequest, s grpc.ServerStreamingServer[rotav1.ParentOutput]) error {
				big := &rotav1.ParentOutput{Output: make([]byte, 4<<20-1<<10)}
				for {
					if err := s.Send(big); err != nil {
						return err
					}
				}
			})
		if _, err := f.client.parentOutputs(t.Context(), "f1/sum"); rota.KindOf(err) != rota.KindExhausted {
			t.Errorf("more than the limit: %v", err)
		}
	})
}

func TestJob_knowsItsWorkflow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		f.nodes[0].flows.onOutputs = outputs(2, nil)
		got := make(chan error, 2)
		w := f.worker(rota.WorkerSpec{Slots: 2}, func(ctx context.Context, job *Job) (Result, error) {
			flow, node, ok := job.Workflow()
			parents, err := job.Parents(ctx)
			switch {
			case err != nil:
				got <- err
			case job.ID() == "plain" && !ok && parents == nil,
				flow == "f1" && node == "map/7" && ok && len(parents) == 2 && parents[1].Job == "f1/map/7":
				got <- nil
			default:
				got <- fmt.Errorf("job %s: workflow %s, node %s, %v, parents %v", job.ID(), flow, node, ok, parents)
			}
			return Result{}, nil
		})
		s, _ := f.stream()
		s.welcome(1)
		synctest.Wait()
		s.answerBeat(100_000)
		s.assign(leaseOf("f1/map/7"), leaseOf("plain"))
		for range 2 {
			if err := within5s(t, got, "handler"); err != nil {
				t.Error(err)
			}
		}
		w.stopped(t, s)
	})
}
