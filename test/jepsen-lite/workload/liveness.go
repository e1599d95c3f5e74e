package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

const (
	// maxLiveness is how long the program waits for each step, far beyond its limit, so that the report can
	// distinguish late from never.
	maxLiveness = 60 * time.Second
	maxDrain    = 150 * time.Second
	// calm is the minimum time for which the healed cluster is watched, for its clock.
	calm = 18 * time.Second
	// maxList bounds one reading of all jobs at the end of a short run (patience).
	maxList = 2 * time.Minute
)

// liveness ends all faults and measures how long the cluster takes to serve again, then collects everything that the
// checkers need at the end. It reports whether there is a cluster to ask: one that neither has a leader nor accepts a
// write is dead, and its verdict need not wait until each further question times out.
func (w *trial) liveness(ctx context.Context) (alive bool) {
	if err := errors.Join(w.Cluster.Heal(), w.Clients.heal()); err != nil {
		w.Rec.Note("healing: %v", err)
	}
	c, err := w.Cluster.Client()
	if err != nil {
		w.Rec.Note("liveness: %v", err)
		return false
	}
	defer c.Close()
	healed := w.Rec.Now()
	l := check.Liveness{HealedAt: healed, LeaderMs: -1, WriteMs: -1, NodesMs: -1, DrainMs: -1}
	since := func() int64 { return (w.Rec.Now() - healed) / 1e6 }
	within := func(d time.Duration, f func(context.Context) error) int64 {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		if err := f(ctx); err != nil {
			l.Text += err.Error() + "; "
			return -1
		}
		return since()
	}
	l.LeaderMs = within(maxLiveness, func(ctx context.Context) error { return awaitLeader(ctx, c) })
	if l.LeaderMs >= 0 {
		l.WriteMs = within(maxLiveness, func(ctx context.Context) error { return w.awaitFirstWrite(ctx, c) })
	}
	if l.WriteMs < 0 {
		w.Rec.Note("the cluster is dead: nothing more is asked")
		w.Rec.With(func(h *check.History) { h.Liveness = l })
		return false
	}
	// A node that is gone for good must not remain a member: the cluster can confirm that now.
	within(maxLiveness, func(ctx context.Context) error { return w.Cluster.Expel(ctx, c) })
	l.NodesMs = within(maxLiveness, w.awaitNodes)
	l.DrainMs = within(maxDrain, func(ctx context.Context) error { return w.awaitDrained(ctx, c, &l.Left) })
	if l.DrainMs < 0 {
		// The objects listed below must not change while they are judged.
		w.Clients.End()
	}
	if left := calm - time.Duration(w.Rec.Now()-healed); left > 0 {
		fault.Rest(ctx, left)
	}
	w.weigh(ctx)
	if err := w.readWebhook(ctx, c); err != nil {
		w.Rec.Note("%v", err)
	}
	final, err := w.listAll(ctx, c)
	if err = errors.Join(err, w.readBatches(ctx, c)); err != nil {
		w.Rec.Note("listing all jobs at the end: %v", err)
	}
	l.Listed = err == nil
	verdict, err := w.Cluster.Verify(ctx)
	if err != nil {
		w.Rec.Note("verify: %v", err)
	}
	w.Rec.With(func(h *check.History) { h.Liveness, h.Final, h.Verdict = l, final, verdict })
	return true
}

// awaitFirstWrite reverts the operators' settings, which are the first writes, then writes itself.
func (w *trial) awaitFirstWrite(ctx context.Context, c *client.Client) error {
	for w.pardon(ctx, c) != nil && fault.Rest(ctx, 100*time.Millisecond) {
	}
	for { // a disk that was full a second ago still refuses
		err := w.awaitWrite(ctx, c)
		if rota.KindOf(err) != rota.KindExhausted || !fault.Rest(ctx, 200*time.Millisecond) {
			return err
		}
	}
}

func awaitLeader(ctx context.Context, c *client.Client) error {
	for {
		status, err := c.Status(ctx)
		if err == nil && status.Leader != "" {
			for _, n := range status.Nodes {
				if n.ID == status.Leader && n.State == "LEADER" {
					return nil
				}
			}
		}
		if !fault.Rest(ctx, 100*time.Millisecond) {
			return fmt.Errorf("no leader: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// awaitWrite submits one job until it is accepted.
func (w *trial) awaitWrite(ctx context.Context, c *client.Client) error {
	spec := rota.NewJobSpec("quick-0", []byte("{}"))
	spec.ID, spec.Queue = rota.JobID(fmt.Sprintf("c%d-after", w.Options.Seed)), "quick"
	op := check.Op{Process: "liveness", Func: check.OpSubmit, Job: string(spec.ID), Invoke: w.Rec.Now()}
	outcomes, err := c.Submit(ctx, spec)
	op.State, op.Existed = outcomes[0].State.String(), outcomes[0].Existed
	w.Rec.Add(op.Done(w.Rec, err))
	return err
}

// awaitNodes waits until every node serves a linearizable read.
func (w *trial) awaitNodes(ctx context.Context) error {
	for _, s := range w.Cluster.Members() {
		if err := w.Cluster.Serves(ctx, s); err != nil {
			return fmt.Errorf("node %s does not serve: %w", s.ID, err)
		}
	}
	return nil
}

// awaitDrained waits until no job is left that is not over, twice in a row.
func (w *trial) awaitDrained(ctx context.Context, c *client.Client, left *int64) error {
	paused := false
	for empty := 0; empty < 2; {
		status, err := c.Status(ctx)
		if err == nil && !paused {
			err = w.pauseSchedules(ctx, c)
			paused = err == nil
		} else if err == nil {
			j := status.Jobs
			*left = j.Blocked + j.Delayed + j.Queued + j.Assigned + j.Running
			if empty++; *left > 0 {
				empty = 0
			}
			if status.Mode != rota.ModeNormal {
				err = w.pardon(ctx, c)
			}
		}
		if !fault.Rest(ctx, 250*time.Millisecond) {
			return errors.Join(fmt.Errorf("%d jobs are not over", *left), err)
		}
	}
	return nil
}

// listAll reads every job that the cluster knows.
func (w *trial) listAll(ctx context.Context, c *client.Client) ([]check.FinalJob, error) {
	ctx, cancel := context.WithTimeout(ctx, w.patience(maxList))
	defer cancel()
	var all []check.FinalJob
	for job, err := range c.Jobs(ctx, rota.JobFilter{}) {
		if err != nil {
			return all, err
		}
		all = append(all, finalJob(&job))
	}
	return all, nil
}

func finalJob(j *rota.Job) check.FinalJob {
	f := check.FinalJob{ID: string(j.ID), Queue: string(j.Queue), State: j.State.String(), Output: string(j.Output)}
	if j.Reason != rota.ReasonNone {
		f.Reason = j.Reason.String()
	}
	for _, a := range j.Attempts {
		end := ""
		if a.End != rota.ReasonNone {
			end = a.End.String()
		}
		f.Attempts = append(f.Attempts, check.FinalAttempt{Number: a.Number, Worker: string(a.Worker),
			Lease: a.Lease.String(), Token: a.Token, End: end})
	}
	return f
}
