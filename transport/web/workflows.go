package web

import (
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

const (
	// maxLines bounds a workflow that arrives as lines: its nodes hold 64 MiB at most.
	maxLines = 64 << 20
	// uploadTime bounds the time for a workflow to arrive and to be committed.
	uploadTime = 7 * time.Minute
)

// workflowCalls serves the calls of workflows.
type workflowCalls struct{ *Site }

func (s *Site) workflows() {
	c := workflowCalls{s}
	const all, one, node = "/v1/workflows", "/v1/workflows/{id}", "/v1/workflows/{id}/nodes/{node}"
	add(s, route{method: http.MethodGet, path: all, call: rotav1.Workflows_List_FullMethodName, id: "listWorkflows",
		says: "List workflows by id, without their nodes"}, c.listWorkflows)
	add(s, route{method: http.MethodGet, path: one, call: rotav1.Workflows_Show_FullMethodName, id: "getWorkflow",
		waits: true,
		says:  "Read a workflow with its nodes, critical path and remaining work"},
		c.getWorkflow)
	add(s, route{method: http.MethodPut, path: one, call: rotav1.Workflows_Submit_FullMethodName, id: "submitWorkflow",
		statuses: []int{http.StatusCreated},
		lasts:    uploadTime, takes: func(r huma.Registry) map[string]*huma.MediaType {
			return map[string]*huma.MediaType{mediaType: {Schema: schemaOf[rota.WorkflowSpec](r)},
				linesType: {Schema: &huma.Schema{
					Description: "Lines of JSON, at most 64 MiB: the first line has queue, tenant, on_failure and labels, or {} for none; each other line has a node or an edge."}}}
		}, says: "Submit a workflow, all of it or nothing: 201, or 200 with existed if the id is already known"}, c.submitWorkflow)
	add(s, route{method: http.MethodPost, path: one + "/cancel", call: rotav1.Workflows_Cancel_FullMethodName,
		id:   "cancelWorkflow",
		says: "Cancel a workflow: end all nodes that have not ended"},
		func(ctx context.Context, in *Named) (*Answer[rota.Workflow], error) {
			return workflowAnswer(s.options.Calls.Workflows.Cancel(ctx, &rotav1.CancelWorkflowRequest{Id: in.ID}))
		})
	add(s, route{method: http.MethodPost, path: one + "/retry", call: rotav1.Workflows_Retry_FullMethodName,
		id: "retryWorkflow", optional: true,
		says: "Retry a workflow: run the nodes that did not complete again"}, c.retryWorkflow)
	add(s, route{method: http.MethodGet, path: node, call: rotav1.Jobs_Get_FullMethodName, id: "getNode", waits: true,
		says: "Read the job of a node; also available at /v1/jobs/WORKFLOW%2FNODE"}, c.getNode)
	add(s, route{method: http.MethodPost, path: node + "/signal", call: rotav1.Workflows_Signal_FullMethodName,
		id:   "signalNode",
		says: "Signal a gate: its children continue, or do not; each signal id counts once"},
		c.signalNode)
}

// WorkflowsQuery holds the parameters of a list of workflows.
type WorkflowsQuery struct {
	List
	State  string `query:"state" enum:"RUNNING,COMPLETED,FAILED,CANCELLED" doc:"Only workflows in this state."`
	Queue  string `query:"queue" maxLength:"255" doc:"Only workflows of this queue."`
	Tenant string `query:"tenant" maxLength:"255" doc:"Only workflows of this tenant."`
}

func (s workflowCalls) listWorkflows(ctx context.Context, in *WorkflowsQuery) (*Answer[rota.WorkflowPage], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Workflows.List(ctx, &rotav1.ListWorkflowsRequest{State: in.State, Queue: in.Queue,
		Tenant: in.Tenant, Limit: in.Limit, Cursor: in.Cursor, Read: read})
	if err != nil {
		return nil, err
	}
	page, _, err := words.WorkflowPageFromWire(got)
	if page.Workflows == nil {
		page.Workflows = []rota.Workflow{}
	}
	return answer(page, got.GetAt()), err
}

// WorkflowQuery holds the parameters of a read of a workflow.
type WorkflowQuery struct {
	One
	View string `query:"view" enum:"brief,full" default:"full" doc:"brief leaves out nodes, critical path and estimates."`
	Wait string `query:"wait" maxLength:"32" doc:"Waits this long, at most 60s, for the end of the workflow, and returns it as it is then."`
}

func (s workflowCalls) getWorkflow(ctx context.Context, in *WorkflowQuery) (*Answer[rota.Workflow], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	if err := s.awaitWorkflow(ctx, in); err != nil {
		return nil, err
	}
	req := &rotav1.GetWorkflowRequest{Id: in.ID, Read: read}
	if in.View == "brief" {
		got, err := s.options.Calls.Workflows.Get(ctx, req)
		if err != nil {
			return nil, err
		}
		flow, err := words.WorkflowFromWire(got.GetWorkflow())
		return answer(flow, got.GetAt()), err
	}
	var first *rotav1.ShowWorkflowResponse
	var nodes []*rotav1.WorkflowNode
	err = s.options.Calls.ShowWorkflow(ctx, req, func(m *rotav1.ShowWorkflowResponse) error {
		if first == nil {
			first = m
		}
		nodes = append(nodes, m.GetNodes()...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	flow, err := words.WorkflowFromWire(first.GetWorkflow())
	if err != nil {
		return nil, err
	}
	if flow.Nodes, err = words.WorkflowNodesFromWire(nodes, flow.ID); err != nil {
		return nil, err
	}
	flow.CriticalPath, err = words.NodesOf(first.GetCriticalPath(), flow.Nodes)
	return answer(flow, first.GetAt()), err
}

func (s workflowCalls) awaitWorkflow(ctx context.Context, in *WorkflowQuery) error {
	if in.Wait == "" {
		return nil
	}
	most, err := waitOf(in.Wait)
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if _, err = s.options.Calls.Workflows.Wait(within, &rotav1.WaitWorkflowRequest{Id: in.ID}); err != nil &&
		within.Err() != nil && ctx.Err() == nil {
		return nil // its time is over: the workflow is shown as it is
	}
	return err
}

// Upload is a workflow that is arriving.
type Upload struct {
	Named
	body  *lines
	lines bool
}

// Resolve implements huma.Resolver.
func (u *Upload) Resolve(ctx huma.Context) []error {
	u.body = newLines(ctx)
	kind, _, _ := mime.ParseMediaType(ctx.Header("Content-Type")) // it was parsed at admission
	u.lines = kind == linesType
	return nil
}

// workflowHead is a workflow without its nodes and edges.
type workflowHead struct {
	ID        rota.WorkflowID    `json:"id"`
	Queue     rota.QueueName     `json:"queue"`
	Tenant    rota.TenantID      `json:"tenant"`
	OnFailure rota.FailurePolicy `json:"on_failure"`
	Labels    map[string]string  `json:"labels"`
}

func (h *workflowHead) message(address string) (*rotav1.SubmitWorkflowRequest, error) {
	if err := sameID(string(h.ID), address); err != nil {
		return nil, err
	}
	return &rotav1.SubmitWorkflowRequest{Workflow: words.WorkflowHeaderToWire(&rota.WorkflowSpec{ID: rota.WorkflowID(
		address), Queue: h.Queue, Tenant: h.Tenant, OnFailure: h.OnFailure, Labels: h.Labels})}, nil
}

func (s workflowCalls) submitWorkflow(ctx context.Context, up *Upload) (*Answer[rota.WorkflowSubmitted], error) {
	defer up.body.end() // a call that took too long may still be reading
	next := up.fromLines
	if !up.lines {
		all, err := up.fromJSON()
		if err != nil {
			return nil, err
		}
		next = func() (m *rotav1.SubmitWorkflowRequest, err error) {
			if len(all) == 0 {
				return nil, io.EOF
			}
			m, all = all[0], all[1:]
			return m, nil
		}
	}
	answered, err := s.options.Calls.SubmitWorkflow(ctx, next)
	if err != nil {
		return nil, err
	}
	done, err := words.WorkflowSubmittedFromWire(answered)
	if err != nil {
		return nil, err
	}
	a := answer(done, nil)
	if !done.Existed {
		a.Status = http.StatusCreated
	}
	return a, nil
}

// fromJSON reads a whole workflow, and returns its messages.
func (u *Upload) fromJSON() ([]*rotav1.SubmitWorkflowRequest, error) {
	text, err := u.body.from.whole()
	if err != nil {
		return nil, err
	}
	var body struct {
		workflowHead
		Nodes []json.RawMessage `json:"nodes"`
		Edges []json.RawMessage `json:"edges"`
	}
	if err := decode(text, &body, ""); err != nil {
		return nil, err
	}
	first, err := body.message(u.ID)
	if err != nil {
		return nil, err
	}
	all := make([]*rotav1.SubmitWorkflowRequest, 1, 1+len(body.Nodes)+len(body.Edges))
	all[0] = first
	for i, raw := range body.Nodes {
		m, err := nodeMessage(raw, "nodes["+strconv.Itoa(i)+"]")
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	for i, raw := range body.Edges {
		m, err := edgeMessage(raw, "edges["+strconv.Itoa(i)+"]")
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

func nodeMessage(raw []byte, place string) (*rotav1.SubmitWorkflowRequest, error) {
	n := rota.NewNodeSpec("", "", nil)
	if err := decode(raw, &n, place); err != nil {
		return nil, err
	}
	return &rotav1.SubmitWorkflowRequest{Nodes: []*rotav1.NodeSpec{words.NodeSpecToWire(&n)}}, nil
}

func edgeMessage(raw []byte, place string) (*rotav1.SubmitWorkflowRequest, error) {
	var e rota.Edge
	if err := decode(raw, &e, place); err != nil {
		return nil, err
	}
	return &rotav1.SubmitWorkflowRequest{Edges: []*rotav1.Edge{words.EdgeToWire(&e)}}, nil
}

// fromLines reads the next line: the first is the head, an edge has from and to, and all others are nodes.
func (u *Upload) fromLines() (m *rotav1.SubmitWorkflowRequest, err error) {
	first := u.body.number == 0
	err = u.body.next(func(text []byte) (err error) {
		place := "line " + strconv.Itoa(u.body.number)
		if first {
			var h workflowHead
			if err := decode(text, &h, place); err != nil {
				return err
			}
			m, err = h.message(u.ID)
			return err
		}
		var ends struct {
			From json.RawMessage `json:"from"`
			To   json.RawMessage `json:"to"`
		}
		if err := json.Unmarshal(text, &ends); err == nil && (ends.From != nil || ends.To != nil) {
			m, err = edgeMessage(text, place)
			return err
		}
		m, err = nodeMessage(text, place)
		return err
	})
	return m, err
}

func workflowAnswer(w *rotav1.Workflow, err error) (*Answer[rota.Workflow], error) {
	if err != nil {
		return nil, err
	}
	flow, err := words.WorkflowFromWire(w)
	return answer(flow, nil), err
}

func (s workflowCalls) retryWorkflow(ctx context.Context,
	in *Setting[rest.WorkflowRetry]) (*Answer[rota.Workflow], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	return workflowAnswer(s.options.Calls.Workflows.Retry(ctx,
		&rotav1.RetryWorkflowRequest{Id: in.ID, From: body.From, Runs: body.Runs}))
}

// NodeOf selects a node.
type NodeOf struct {
	Node string `path:"node" maxLength:"512"`
}

// NodeQuery holds the parameters of a read of a node's job.
type NodeQuery struct {
	OneJob
	NodeOf
}

func (s workflowCalls) getNode(ctx context.Context, in *NodeQuery) (*Answer[rota.Job], error) {
	in.ID = string(rota.NodeJobID(rota.WorkflowID(in.ID), in.Node))
	return s.getJob(ctx, &in.OneJob)
}

// SignalCall is a call that delivers a signal to a gate.
type SignalCall struct {
	Named
	NodeOf
	Given In[rest.Signal]
}

func (s workflowCalls) signalNode(ctx context.Context, in *SignalCall) (*Answer[rota.Signalled], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Workflows.Signal(ctx, &rotav1.SignalWorkflowRequest{Workflow: in.ID, Node: in.Node,
		Id: body.ID, Payload: body.Payload,
		Refuse: body.Refuse})
	if err != nil {
		return nil, err
	}
	done, err := words.SignalledFromWire(got)
	return answer(done, nil), err
}
