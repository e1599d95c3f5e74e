package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// flowsUnary returns each unary call about workflows.
func flowsUnary(b *bundle) map[string]unaryRow {
	type call = func(context.Context) (proto.Message, error)
	get := func(id string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return b.flows.Get(ctx, &rotav1.GetWorkflowRequest{Id: id, Read: &rotav1.Read{MinIndex: 11}})
		}
	}
	list := func(req *rotav1.ListWorkflowsRequest) call {
		return func(ctx context.Context) (proto.Message, error) { return b.flows.List(ctx, req) }
	}
	wait := func(id string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return b.flows.Wait(ctx, &rotav1.WaitWorkflowRequest{Id: id})
		}
	}
	cancel := func(id string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return b.flows.Cancel(ctx, &rotav1.CancelWorkflowRequest{Id: id})
		}
	}
	retry := func(id, from string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return b.flows.Retry(ctx, &rotav1.RetryWorkflowRequest{Id: id, From: from})
		}
	}
	follow := func(runs int32) call {
		return func(ctx context.Context) (proto.Message, error) {
			return b.flows.Retry(ctx, &rotav1.RetryWorkflowRequest{Id: "f1", Runs: runs})
		}
	}
	signal := func(r *rotav1.SignalWorkflowRequest) call {
		return func(ctx context.Context) (proto.Message, error) { return b.flows.Signal(ctx, r) }
	}
	return map[string]unaryRow{
		"workflows signal": {signal(&rotav1.SignalWorkflowRequest{Workflow: "f1", Node: "g", Id: "s"}),
			signal(&rotav1.SignalWorkflowRequest{Workflow: "f1", Node: "g"}), `index:12`},
		"workflows signal payload": {signal(&rotav1.SignalWorkflowRequest{Workflow: "f1", Node: "g", Id: "s",
			Payload: make([]byte, rota.MaxSignalBytes)}),
			signal(&rotav1.SignalWorkflowRequest{Workflow: "f1", Node: "g", Id: "s",
				Payload: make([]byte, rota.MaxSignalBytes+1)}),
			`id:"s"`}, "workflows get": {get("f1"), get("f 1"), `index:11`},
		"workflows list": {list(&rotav1.ListWorkflowsRequest{Queue: "q", State: "FAILED"}),
			list(&rotav1.ListWorkflowsRequest{State: "LOST"}), `state:"FAILED"`},
		"workflows list limit": {list(&rotav1.ListWorkflowsRequest{}),
			list(&rotav1.ListWorkflowsRequest{Limit: limits.MaxPage + 1}), `next_cursor:"n"`},
		"workflows list tenant": {list(&rotav1.ListWorkflowsRequest{Tenant: "t"}),
			list(&rotav1.ListWorkflowsRequest{Tenant: "t t"}), `id:"f1"`},
		"workflows wait":       {wait("f1"), wait(""), `state:"COMPLETED"`},
		"workflows cancel":     {cancel("f1"), cancel("f1/a"), `ending:"CANCELLED"`},
		"workflows retry":      {retry("f1", ""), retry("", ""), `runs:1`},
		"workflows retry runs": {follow(6), follow(-1), `runs:7`},
		"workflows retry from": {retry("f1", "map-7"), retry("f1", "map 7"), `failed_node:"map-7"`},
	}
}

func TestShowWorkflow_tellsAllInPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const total = 20_000
	flow := rota.Workflow{ID: "f1", State: rota.WorkflowRunning, NodeCount: total, Counts: rota.NodeCounts{Skipped: 3}}
	for i := range total {
		n := rota.WorkflowNode{ID: fmt.Sprintf("node-%d-%s", i, strings.Repeat("x", 100)), State: rota.NodeSkipped,
			Attempt: 2}
		for k := max(0, i-3); k < i; k++ {
			n.Parents = append(n.Parents, flow.Nodes[k].ID)
		}
		flow.Nodes, flow.CriticalPath = append(flow.Nodes, n), append(flow.CriticalPath, n.ID)
	}
	for i := range total { // the last one has a large number
		if i < total-1 {
			flow.Nodes[total-1].Parents = append(flow.Nodes[total-1].Parents, flow.Nodes[i].ID)
		}
	}
	b.core.flows.show = func(_ context.Context, _ rota.WorkflowID, nodes bool, opt peer.ReadOptions) (rota.Workflow,
		rota.ReadAt, error) {
		if !nodes || !opt.Stale {
			t.Errorf("nodes %v, options %+v", nodes, opt)
		}
		return flow, rota.ReadAt{Index: 17}, nil
	}
	stream, err := b.flows.Show(bounded(t), &rotav1.GetWorkflowRequest{Id: "f1", Read: &rotav1.Read{Stale: true}})
	if err != nil {
		t.Fatal(err)
	}
	header, err := stream.Recv()
	if err != nil || header.GetWorkflow().GetNodeCount() != total || header.GetAt().GetIndex() != 17 ||
		len(header.GetCriticalPath()) != total || len(header.GetNodes()) != 0 {
		t.Fatalf("header %v, %v", header.GetWorkflow(), err)
	}
	var wire []*rotav1.WorkflowNode
	pages := 0
	for ; ; pages++ {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := proto.Size(m); n > pageBytes || m.GetWorkflow() != nil {
			t.Errorf("a page has %d bytes, workflow %v", n, m.GetWorkflow())
		}
		wire = append(wire, m.GetNodes()...)
	}
	nodes, err := words.WorkflowNodesFromWire(wire, "f1")
	if err != nil || len(nodes) != total || pages < 2 || len(nodes[total-1].Parents) != total+2 ||
		nodes[5].Parents[0] != flow.Nodes[2].ID || nodes[7].State != rota.NodeSkipped {
		t.Errorf("%d nodes in %d pages, %v", len(nodes), pages, err)
	}
	if b.server.shows.used != 0 {
		t.Error("a place is still taken")
	}
}

func TestShowWorkflow_boundsWhatIsToldAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range showsAtOnce {
		b.server.shows.take(1)
	}
	stream, err := b.flows.Show(bounded(t), &rotav1.GetWorkflowRequest{Id: "f1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); kindOf(err) != rota.KindUnavailable {
		t.Errorf("got %v", err)
	}
	b.server.shows.give(1)
	if stream, err = b.flows.Show(bounded(t), &rotav1.GetWorkflowRequest{Id: "f1"}); err != nil {
		t.Fatal(err)
	}
	if m, err := stream.Recv(); err != nil || m.GetWorkflow().GetId() != "f1" {
		t.Errorf("got %v, %v", m, err)
	}
}

func TestParentOutputs(t *testing.T) {
	t.Parallel()
	t.Run("come_one_by_one", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.core.flows.outputs = func(_ context.Context, job rota.JobID, send func(rota.ParentOutput) error) error {
			return errors.Join(send(rota.ParentOutput{Node: "a", Job: "f1/a", Output: rota.Blob("1"),
				OutputDigest: rota.Hex{1}}),
				send(rota.ParentOutput{Node: "ü/b", Job: job}),
				rota.Refusef(rota.KindOutOfRange, "f1/c", "no longer kept"))
		}
		stream, err := b.flows.ParentOutputs(bounded(t), &rotav1.ParentOutputsRequest{Job: "f1/ü/sum"})
		if err != nil {
			t.Fatal(err)
		}
		first, err := stream.Recv()
		if err != nil || first.GetNode() != "a" || string(first.GetOutput()) != "1" ||
			len(first.GetOutputDigest()) != 1 {
			t.Errorf("first %v, %v", first, err)
		}
		if second, err := stream.Recv(); err != nil || second.GetJob() != "f1/ü/sum" {
			t.Errorf("second %v, %v", second, err)
		}
		if _, err := stream.Recv(); kindOf(err) != rota.KindOutOfRange {
			t.Errorf("the end is %v", err)
		}
	})
	t.Run("refuse_what_is_no_nodes_job", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for _, id := range []string{"", "plain", "f1/", "/a", "f 1/a", "f1/a b"} {
			stream, err := b.flows.ParentOutputs(bounded(t), &rotav1.ParentOutputsRequest{Job: id})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); kindOf(err) != rota.KindInvalid {
				t.Errorf("%q: got %v", id, err)
			}
		}
	})
	t.Run("cut_off_who_takes_nothing", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := setup(t)
			over := make(chan error, 1)
			b.core.flows.outputs = func(ctx context.Context, _ rota.JobID, send func(rota.ParentOutput) error) error {
				for {
					if err := send(rota.ParentOutput{Output: make([]byte, 256<<10)}); err != nil {
						over <- ctx.Err()
						return err
					}
				}
			}
			start := time.Now()
			if _, err := b.flows.ParentOutputs(t.Context(), &rotav1.ParentOutputsRequest{Job: "f1/a"}); err != nil {
				t.Fatal(err)
			}
			if err := <-over; err == nil || time.Since(start) != maxStep {
				t.Errorf("the core's context after %v: %v", time.Since(start), err)
			}
		})
	})
}

func TestWaitWorkflow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, waitWorkflow)
}

// waitWorkflow needs a clock of its own: on a busy machine the caller's time would be over before the answer that
// reports it arrives.
func waitWorkflow(t *testing.T) {
	b := setup(t)
	waiting := make(chan struct{}, 1)
	b.core.flows.await = func(ctx context.Context, _ rota.WorkflowID) (rota.Workflow, error) {
		waiting <- struct{}{}
		<-ctx.Done()
		return rota.Workflow{}, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err := b.flows.Wait(ctx, &rotav1.WaitWorkflowRequest{Id: "f1"})
	if got := words.FromStatus(err); got.Kind != rota.KindTimeout || got.Subject != "f1" || ctx.Err() != nil {
		t.Errorf("at the end of the call's time: %+v, the caller's own context: %v", got, ctx.Err())
	}
	<-waiting
	got := make(chan error, 1)
	go func() {
		_, err := b.flows.Wait(bounded(t), &rotav1.WaitWorkflowRequest{Id: "f1"})
		got <- err
	}()
	<-waiting
	if err := errors.Join(b.server.Drain(bounded(t))); err != nil {
		t.Error(err)
	}
	if err := <-got; kindOf(err) != rota.KindUnavailable || !strings.Contains(err.Error(), "another node") {
		t.Errorf("when the node drains: %v", err)
	}
}

func TestListWorkflows_cutsPagesByBytes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	labels := make(map[string]string)
	for i := range rota.MaxLabels {
		labels[fmt.Sprint("label", i)] = strings.Repeat("v", rota.MaxLabelBytes)
	}
	asked := 0
	b.core.flows.list = func(_ context.Context, f rota.WorkflowFilter, opt peer.ReadOptions) (rota.WorkflowPage,
		rota.ReadAt, error) {
		if asked++; asked == 2 && opt.MinIndex != 5 {
			t.Errorf("the second reading asked for %+v", opt)
		}
		page := rota.WorkflowPage{NextCursor: "more"}
		for i := range f.Limit {
			page.Workflows = append(page.Workflows, rota.Workflow{ID: rota.WorkflowID(fmt.Sprint("f", i)),
				Labels: labels})
		}
		return page, rota.ReadAt{Index: 5}, nil
	}
	answer, err := b.flows.List(bounded(t), &rotav1.ListWorkflowsRequest{Limit: limits.MaxPage})
	if err != nil || proto.Size(answer) > pageBytes+1024 || len(answer.GetWorkflows()) < 100 ||
		answer.GetNextCursor() != "more" {
		t.Errorf("%d workflows, %d bytes, %v", len(answer.GetWorkflows()), proto.Size(answer), err)
	}
}

// TestJobRefs checks that a node's job may be named wherever a job is named.
func TestJobRefs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const id = "f1/map/ü-7"
	for name, call := range map[string]func() error{
		"get": func() error { _, err := b.jobs.Get(bounded(t), &rotav1.GetJobRequest{Id: id}); return err },
		"cancel": func() error {
			answer, err := b.jobs.Cancel(bounded(t), &rotav1.CancelJobsRequest{Ids: []string{id}})
			if err == nil && answer.GetJobs()[0].GetRefusal() != nil {
				return words.RefusalFromWire(answer.GetJobs()[0].GetRefusal())
			}
			return err
		},
		"report": func() error {
			_, err := b.jobs.ReportProof(bounded(t), &rotav1.ReportProofRequest{Id: id, Reason: "wrong"})
			return err
		},
		"why": func() error {
			_, err := rotav1.NewExplainClient(b.conn).Why(bounded(t), &rotav1.WhyRequest{Id: id})
			return err
		},
		"wait": func() error {
			stream, err := b.jobs.Wait(bounded(t), &rotav1.WaitJobsRequest{Ids: []string{id}})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"events": func() error {
			_, err := words.TailFromWire(&rotav1.TailRequest{Job: id})
			return err
		},
		"archive": func() error {
			_, err := peersOf(t, b.lis.DialContext).ArchiveRecords(bounded(t), n1, []rota.JobID{id})
			return err
		},
	} {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	answer, err := b.jobs.Submit(bounded(t), &rotav1.SubmitRequest{Jobs: []*rotav1.JobSpec{wireJob(id)}})
	if err != nil || answer.GetJobs()[0].GetRefusal().GetSubject() != "id" {
		t.Errorf("a submission under a node's id: %v, %v", answer, err)
	}
}

// BenchmarkShowWorkflow measures sending the largest workflow: 100,000 nodes with 1,000,000 parents.
func BenchmarkShowWorkflow(b *testing.B) {
	node := setup(b)
	flow := rota.Workflow{ID: "f1", NodeCount: rota.MaxWorkflowNodes}
	for i := range rota.MaxWorkflowNodes {
		n := rota.WorkflowNode{ID: fmt.Sprintf("node-%06d", i), Type: "t", State: rota.NodeSkipped}
		for k := max(0, i-10); k < i; k++ {
			n.Parents = append(n.Parents, flow.Nodes[k].ID)
		}
		flow.Nodes = append(flow.Nodes, n)
	}
	node.core.flows.show = func(context.Context, rota.WorkflowID, bool, peer.ReadOptions) (rota.Workflow, rota.ReadAt,
		error) {
		return flow, rota.ReadAt{}, nil
	}
	for b.Loop() {
		stream, err := node.flows.Show(b.Context(), &rotav1.GetWorkflowRequest{Id: "f1"})
		if err != nil {
			b.Fatal(err)
		}
		for err == nil {
			_, err = stream.Recv()
		}
		if !errors.Is(err, io.EOF) {
			b.Fatal(err)
		}
	}
}
