package verbs

import (
	"context"
	"errors"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/internal/failpoint"
	"github.com/rotasched/rota/internal/peer"
)

// SubmitWorkflow admits a workflow completely or not at all (SPEC §11.1). It orders the graph here, before the log, and
// then uploads the nodes in chunks, which are invisible until the last operation commits them. An interrupted upload
// continues when the same workflow is submitted again, and lapses if it is not.
func (fv *WorkflowVerbs) SubmitWorkflow(ctx context.Context, spec rota.WorkflowSpec) (rota.WorkflowSubmitted, error) {
	s, err := fv.submitWorkflow(ctx, &spec)
	fv.n.Measures.CountRefused(err)
	return s, err
}

func (fv *WorkflowVerbs) submitWorkflow(ctx context.Context, spec *rota.WorkflowSpec) (rota.WorkflowSubmitted, error) {
	if err := rota.CheckID("workflow", spec.ID); err != nil {
		return rota.WorkflowSubmitted{}, err
	}
	leave, err := fv.enterUpload(ctx, spec.ID)
	if err != nil {
		return rota.WorkflowSubmitted{}, err
	}
	defer leave()
	g, err := spec.Arrange()
	if err != nil {
		return rota.WorkflowSubmitted{}, err
	}
	u := upload{n: fv.n, workflowVerbs: fv, spec: spec, graph: g, content: fsm.WorkflowContent(spec, g)}
	return u.run(ctx)
}

// enterUpload takes a slot for uploading a workflow. A known workflow is answered regardless of other uploads
// (SPEC §16.5): such repetitions have their own slot, where they wait for each other.
func (fv *WorkflowVerbs) enterUpload(ctx context.Context, id rota.WorkflowID) (leave func(), err error) {
	w, known, err := fv.WorkflowHere(id)
	if err != nil {
		return nil, err
	}
	if known && w.State != rota.WorkflowOpen {
		select {
		case fv.repeats <- struct{}{}:
			return func() { <-fv.repeats }, nil
		case <-ctx.Done():
			return nil, fault.Deadline(ctx, "waiting to compare workflow "+string(id)+" with the one that is known")
		}
	}
	select {
	case fv.Uploads <- struct{}{}:
		return func() { <-fv.Uploads }, nil
	default:
		// Unavailable, not Exhausted: only this node has no room, so a client tries another one.
		return nil, &rota.Error{Kind: rota.KindUnavailable, Subject: "workflows", RetryAfter: time.Second,
			Text: "this node takes in as many workflows as it can at a time: submit again, or through another node"}
	}
}

// upload writes one workflow to the log.
type upload struct {
	n             *Host
	workflowVerbs *WorkflowVerbs
	spec          *rota.WorkflowSpec
	graph         *rota.Graph
	content       [16]byte
}

// maxRestarts bounds how often an upload starts again after its earlier part was discarded: a node that is paused so
// often should report it.
const maxRestarts = 3

func (u *upload) run(ctx context.Context) (rota.WorkflowSubmitted, error) {
	for restarts := 0; ; restarts++ {
		s, again, err := u.once(ctx)
		if !again || restarts == maxRestarts {
			return s, err
		}
	}
}

// once opens the workflow, adds the missing nodes, and commits. It reports whether the log requests nodes that it
// already had: the upload lapsed meanwhile.
func (u *upload) once(ctx context.Context) (s rota.WorkflowSubmitted, again bool, err error) {
	o, index, err := u.n.ProposeOne(ctx, entry.OpenWorkflowOp(u.spec, u.graph, u.content))
	if err != nil {
		return s, false, u.nameDifference(ctx, err, index)
	}
	if rota.WorkflowState(o.GetWorkflowState()) != rota.WorkflowOpen {
		return u.there(ctx)
	}
	if err := u.add(ctx, o.GetNextNode()); err != nil {
		return s, lapsed(err), err
	}
	failpoint.Pass("workflow-before-commit")
	o, index, err = u.n.ProposeInTurn(ctx, entry.CommitWorkflowOp(u.spec.ID, u.content))
	if err != nil {
		return s, lapsed(err), err
	}
	return rota.WorkflowSubmitted{ID: u.spec.ID, State: rota.WorkflowState(o.GetWorkflowState()),
		Nodes: int64(len(u.graph.Order)), Edges: int64(u.graph.Edges), Index: index}, false, nil
}

// there answers with the workflow submitted earlier under the id, with the same content (SPEC §16.5).
func (u *upload) there(ctx context.Context) (s rota.WorkflowSubmitted, again bool, err error) {
	w, read, err := u.workflowVerbs.Workflow(ctx, u.spec.ID, false, peer.ReadOptions{})
	return rota.WorkflowSubmitted{ID: u.spec.ID, State: w.State, Existed: true, Nodes: w.NodeCount, Edges: w.EdgeCount,
		Index: read.Index}, false, err
}

// nameDifference adds to the error of a submission rejected at an index how it differs from the existing workflow, if
// the caller may read that here.
func (u *upload) nameDifference(ctx context.Context, err error, index rota.Index) error {
	if e := rota.ErrorOf(err); e.Kind != rota.KindConflict || e.Subject != "id" {
		return err
	}
	rd, lost := u.n.Replica.Reader(ctx)
	if lost != nil || u.n.Replica.WaitApplied(ctx, index) != nil {
		return err
	}
	var v *fsm.WorkflowView
	w, known := rota.Workflow{}, false
	lost = u.n.Replica.View(func(s *fsm.View) {
		if w, known = s.Workflow(u.spec.ID); known {
			v, known = s.WorkflowView(u.spec.ID)
		}
	})
	if lost != nil || !known || !rd.Reads(w.Tenant, w.Queue) {
		return err
	}
	return fsm.OtherWorkflow(u.spec.ID, v.Difference(u.spec, u.graph))
}

// MaxChunks bounds the nodes in one entry, to 4,000: a hundred thousand small ones fit into half a megabyte, and
// applying those takes hundreds of milliseconds.
const MaxChunks = 8

// add uploads the nodes from a number on, one entry at a time. Several entries at once were rejected: calls to the
// leader may arrive out of order, and one that arrives too early is rejected and sent again.
func (u *upload) add(ctx context.Context, from uint32) error {
	ops := entry.AddNodesOps(u.spec, u.graph, u.content, from)
	for len(ops) > 0 {
		outcomes, err := u.n.ProposeFirst(ctx, ops[:min(MaxChunks, len(ops))])
		if err != nil {
			return err
		}
		for _, o := range outcomes {
			if e := entry.OutcomeError(o); e != nil {
				return e
			}
		}
		ops = ops[len(outcomes):]
	}
	return nil
}

// lapsed reports whether nodes, or the end, of an upload were rejected because the part before them is missing, or no
// longer there.
func lapsed(err error) bool {
	var e *rota.Error
	return errors.As(err, &e) && (e.Kind == rota.KindOutOfRange || e.Kind == rota.KindNotFound &&
		e.Subject == "workflow")
}
