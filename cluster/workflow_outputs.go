package cluster

import (
	"context"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// ParentOutputs returns what the parents of a node's job put out (SPEC §11.2), one at
// a time: all together may be larger than memory.
func (fv *workflowVerbs) ParentOutputs(ctx context.Context, job rota.JobID, send func(rota.ParentOutput) error) error {
	if err := rota.CheckJobRef("job", job); err != nil {
		return err
	}
	parents, err := fv.parentsOf(ctx, job)
	if err != nil {
		return err
	}
	if err := fv.mayTakeOutputs(ctx, job); err != nil {
		return err
	}
	for _, id := range parents {
		parent, ok, err := fv.n.archive.Job(ctx, id)
		_, node, _ := rota.SplitNodeJobID(id)
		switch {
		case err != nil:
			return err
		case !ok || parent.RecordDropped:
			return rota.Refusef(rota.KindOutOfRange, "parent", "what parent %s of job %s put out is no longer kept: its record is "+
				"older than archive_retention", node, job)
		case parent.State != rota.JobCompleted:
			return rota.Refusef(rota.KindConflict, "parent", "parent %s of job %s is %s: outputs are served once all parents have "+
				"COMPLETED", node, job, parent.State)
		}
		if err := send(rota.ParentOutput{Node: node, Job: id, Output: parent.Output, OutputDigest: parent.OutputDigest}); err != nil {
			return err
		}
	}
	return nil
}

// mayTakeOutputs refuses a caller who neither has the job leased, nor may read data.
func (fv *workflowVerbs) mayTakeOutputs(ctx context.Context, job rota.JobID) error {
	c, ok := ctx.Value(access.CallerKey{}).(access.Caller)
	if !ok {
		return nil
	}
	rd, err := fv.n.replica.reader(ctx)
	if err != nil {
		return err
	}
	may := false
	fv.n.replica.look(func(s *fsm.View) {
		tenant, queue, _ := s.PlaceOfJob(job)
		may = rd.Has(access.RightData, tenant, queue) || s.LeasedTo(job, c.Actor)
	})
	if !may {
		return unknownJob(job)
	}
	return nil
}

// parentsOf returns the jobs of a node's parents. A job that this replica knows to be
// leased has all its parents behind it, for good, so that its worker's call costs no
// entry of the log; any other call waits until the replica is fresh.
func (fv *workflowVerbs) parentsOf(ctx context.Context, job rota.JobID) ([]rota.JobID, error) {
	var state rota.JobState
	var parents []rota.JobID
	var err error
	fv.n.replica.look(func(s *fsm.View) {
		state = s.JobState(job)
		parents, err = s.NodeParents(job)
	})
	if err == nil && (state == rota.JobAssigned || state == rota.JobRunning) {
		return parents, nil
	}
	parents, _, err = read(ctx, &fv.n.replica, peer.ReadOptions{}, func(s *fsm.View) ([]rota.JobID, error) { return s.NodeParents(job) })
	return parents, err
}
