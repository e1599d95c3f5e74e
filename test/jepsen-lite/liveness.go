package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

const (
	// livenessMost is how long each thing is waited for, far beyond its limit,
	// so that the report can tell late from never.
	livenessMost = 60 * time.Second
	drainMost    = 150 * time.Second
	// calm is how long the healed cluster is watched at least, for its clock.
	calm = 18 * time.Second
	// listMost bounds one reading of all jobs at the end of a short run (patience).
	listMost = 2 * time.Minute
)

// liveness mends all and measures how long the cluster takes to serve again,
// then asks for everything that the checkers want to know at the end. It says whether
// there is a cluster to ask: one that neither has a leader nor takes a write is
// dead, and its verdict need not wait for each further question to run out of time.
func (w *trial) liveness(ctx context.Context) (alive bool) {
	if err := errors.Join(w.cluster.heal(), w.crew.heal()); err != nil {
		w.rec.note("healing: %v", err)
	}
	c, err := w.cluster.client()
	if err != nil {
		w.rec.note("liveness: %v", err)
		return false
	}
	defer c.Close()
	healed := w.rec.now()
	l := Liveness{HealedAt: healed, LeaderMs: -1, WriteMs: -1, NodesMs: -1, DrainMs: -1}
	since := func() int64 { return (w.rec.now() - healed) / 1e6 }
	within := func(d time.Duration, f func(context.Context) error) int64 {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		if err := f(ctx); err != nil {
			l.Text += err.Error() + "; "
			return -1
		}
		return since()
	}
	l.LeaderMs = within(livenessMost, func(ctx context.Context) error { return awaitLeader(ctx, c) })
	if l.LeaderMs >= 0 {
		l.WriteMs = within(livenessMost, func(ctx context.Context) error { return w.awaitFirstWrite(ctx, c) })
	}
	if l.WriteMs < 0 {
		w.rec.note("the cluster is dead: nothing more is asked")
		w.rec.with(func(h *History) { h.Liveness = l })
		return false
	}
	// Who is gone for good is no member: the cluster can say so now.
	within(livenessMost, func(ctx context.Context) error { return w.cluster.expel(ctx, c) })
	l.NodesMs = within(livenessMost, w.awaitNodes)
	l.DrainMs = within(drainMost, func(ctx context.Context) error { return w.awaitDrained(ctx, c, &l.Left) })
	if l.DrainMs < 0 {
		// What is listed below must stand still to be judged.
		w.crew.end()
	}
	if left := calm - time.Duration(w.rec.now()-healed); left > 0 {
		rest(ctx, left)
	}
	w.weigh(ctx)
	final, err := w.listAll(ctx, c)
	if err != nil {
		w.rec.note("listing all jobs at the end: %v", err)
	}
	l.Listed = err == nil
	verdict, err := w.cluster.verify(ctx)
	if err != nil {
		w.rec.note("verify: %v", err)
	}
	w.rec.with(func(h *History) { h.Liveness, h.Final, h.Verdict = l, final, verdict })
	return true
}

// awaitFirstWrite takes back what operators set, whose words are the first writes,
// then writes itself.
func (w *trial) awaitFirstWrite(ctx context.Context, c *client.Client) error {
	for w.pardon(ctx, c) != nil && rest(ctx, 100*time.Millisecond) {
	}
	for { // a disk that was full a second ago still refuses
		err := w.awaitWrite(ctx, c)
		if rota.KindOf(err) != rota.Exhausted || !rest(ctx, 200*time.Millisecond) {
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
		if !rest(ctx, 100*time.Millisecond) {
			return fmt.Errorf("no leader: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// awaitWrite submits one job until it is taken.
func (w *trial) awaitWrite(ctx context.Context, c *client.Client) error {
	spec := rota.NewJobSpec("quick-0", []byte("{}"))
	spec.ID, spec.Queue = rota.JobID(fmt.Sprintf("c%d-after", w.options.Seed)), "quick"
	op := Op{Process: "liveness", Func: opSubmit, Job: string(spec.ID), Invoke: w.rec.now()}
	outcomes, err := c.Submit(ctx, spec)
	op.State, op.Existed = outcomes[0].State.String(), outcomes[0].Existed
	w.rec.add(op.done(w.rec, err))
	return err
}

// awaitNodes waits until every node serves a linearizable read.
func (w *trial) awaitNodes(ctx context.Context) error {
	for _, s := range w.cluster.members() {
		if err := w.cluster.serves(ctx, s); err != nil {
			return fmt.Errorf("node %s does not serve: %w", s.id, err)
		}
	}
	return nil
}

// awaitDrained waits until no job is left that is not over, twice in a row.
func (w *trial) awaitDrained(ctx context.Context, c *client.Client, left *int64) error {
	for empty := 0; empty < 2; {
		status, err := c.Status(ctx)
		if err == nil {
			j := status.Jobs
			*left = j.Blocked + j.Delayed + j.Queued + j.Assigned + j.Running
			if empty++; *left > 0 {
				empty = 0
			}
			if status.Mode != rota.ModeNormal {
				err = w.pardon(ctx, c)
			}
		}
		if !rest(ctx, 250*time.Millisecond) {
			return errors.Join(fmt.Errorf("%d jobs are not over", *left), err)
		}
	}
	return nil
}

// listAll reads every job that the cluster knows.
func (w *trial) listAll(ctx context.Context, c *client.Client) ([]FinalJob, error) {
	ctx, cancel := context.WithTimeout(ctx, w.patience(listMost))
	defer cancel()
	var all []FinalJob
	filter, read := rota.JobFilter{Limit: 500}, rota.ReadOptions{}
	for {
		page, at, err := c.Jobs(ctx, filter, read)
		if err != nil {
			return all, err
		}
		for i := range page.Jobs {
			all = append(all, finalJob(&page.Jobs[i]))
		}
		if page.NextCursor == "" {
			return all, nil
		}
		filter.Cursor, read = page.NextCursor, rota.ReadOptions{MinIndex: at.Index}
	}
}

func finalJob(j *rota.Job) FinalJob {
	f := FinalJob{ID: string(j.ID), Queue: string(j.Queue), State: j.State.String(), Output: string(j.Output)}
	if j.Reason != rota.ReasonNone {
		f.Reason = j.Reason.String()
	}
	for _, a := range j.Attempts {
		end := ""
		if a.End != rota.ReasonNone {
			end = a.End.String()
		}
		f.Attempts = append(f.Attempts, FinalAttempt{a.Number, string(a.Worker), a.Lease.String(), a.Token, end})
	}
	return f
}
