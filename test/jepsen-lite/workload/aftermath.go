package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

const (
	// maxAct bounds each wait of the aftermath, far beyond the usual time.
	maxAct = 90 * time.Second
	// actJobs is the number of jobs that are acknowledged before a loss, and after it.
	actJobs = 150
	// actPoll is the interval at which the cluster's state is read.
	actPoll = 150 * time.Millisecond
)

// aftermath is the phase after the run: first a node dies for good, then most disks are lost. Its users have a separate
// account, which outlives the cluster.
type aftermath struct {
	*trial
	// run keeps the run's own history.
	run   *check.Recorder
	r     *rand.Rand
	crew  *crew
	facts check.Aftermath
}

// Outlive loses nodes for good, if that is configured and the cluster is alive.
func (w *trial) Outlive(ctx context.Context) {
	if !w.Options.Recover || ctx.Err() != nil {
		return
	}
	check.Say("nodes are lost for good")
	world := *w.World
	world.Rec = check.NewRecorder(w.Rec.Base, int(maxAct.Seconds())*fault.OpsPerSecond)
	own := &trial{World: &world, Clients: w.Clients, book: &book{}}
	a := &aftermath{trial: own, run: w.Rec, r: rand.New(rand.NewPCG(w.Options.Seed, 40_000))}
	if err := a.play(ctx); err != nil {
		a.facts.Error = err.Error()
		w.Rec.Note("after the run: %v", err)
	}
	world.Rec.With(func(h *check.History) { a.facts.Ops = h.Ops })
	w.Rec.With(func(h *check.History) { h.After = &a.facts })
}

// play runs both acts and reads the state at their end.
func (a *aftermath) play(ctx context.Context) error {
	if !a.Cluster.HasAutopilot() {
		return fmt.Errorf("the binary was not built with the tag %s", fault.TestClockTag)
	}
	waking, cancel := context.WithTimeout(ctx, maxAct)
	defer cancel()
	if err := a.Cluster.Resume(waking); err != nil {
		return err
	}
	var err error
	if a.crew, err = a.muster(ctx); err != nil {
		return err
	}
	if err := a.dies(ctx); err != nil {
		return fmt.Errorf("a node dies for good: %w", err)
	}
	if err := a.isRecovered(ctx); err != nil {
		return fmt.Errorf("most disks are lost: %w", err)
	}
	return a.listEnd(ctx)
}

// struck records an action for the timeline.
func (a *aftermath) struck(name string, targets []string, from int64, note string) {
	f := check.Fault{Nemesis: name, Targets: targets, From: from, To: a.Rec.Now(), Note: note}
	a.run.With(func(h *check.History) { h.Faults = append(h.Faults, f) })
}

// awaiting calls ask until the cluster is in the expected state.
func (a *aftermath) awaiting(ctx context.Context, what string, ask func(context.Context, *client.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, maxAct)
	defer cancel()
	c, err := a.Cluster.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		last := ask(try, c)
		cancel()
		if last == nil {
			return nil
		}
		if !fault.Rest(ctx, actPoll) {
			return fmt.Errorf("%s: %w", what, errors.Join(ctx.Err(), last))
		}
	}
}

// votersOf lists the voters by id.
func votersOf(ctx context.Context, c *client.Client) (ids []string, err error) {
	peers, err := c.Peers(ctx)
	for _, p := range peers {
		if p.Voter {
			ids = append(ids, string(p.ID))
		}
	}
	slices.Sort(ids)
	return ids, err
}

// steady waits until all members are healthy voters in the wanted number.
func (a *aftermath) steady(ctx context.Context) (settled rota.ClusterStatus, err error) {
	all := len(a.Cluster.Members())
	err = a.awaiting(ctx, "all voters are healthy", func(ctx context.Context, c *client.Client) (err error) {
		if settled, err = c.Status(ctx); err != nil {
			return err
		}
		if p := settled.Autopilot; int(p.HealthyVoters) != all || int(p.VotersWanted) != all || settled.Leader == "" {
			return fmt.Errorf("%d members: %+v", all, p)
		}
		return nil
	})
	return settled, err
}

// dies destroys a voter with its disk under load, and lets a new node join.
func (a *aftermath) dies(ctx context.Context) error {
	before, err := a.steady(ctx)
	if err != nil {
		return err
	}
	a.crew.work(ctx)
	defer a.crew.rest()
	if err := a.crew.acknowledged(ctx, actJobs); err != nil {
		return err
	}
	members := a.Cluster.Members()
	victim := members[a.r.IntN(len(members))]
	if i := slices.IndexFunc(members, func(s *fault.Server) bool { return s.ID == string(before.Leader) }); i >= 0 &&
		a.r.IntN(2) == 0 {
		victim = members[i]
	}
	d := &check.Death{At: a.Rec.Now(), Node: victim.ID, Voters: len(members), Fewest: len(members), HealedMs: -1,
		Wanted: [2]int64{before.Autopilot.VotersWanted, 0}}
	a.facts.Death = d
	victim.Bury()
	if err := victim.Wipe(); err != nil {
		return err
	}
	next, err := a.Cluster.Fresh()
	if err != nil {
		return err
	}
	d.Next = next.ID
	err = a.awaiting(ctx, "the voters heal", func(ctx context.Context, c *client.Client) error {
		ids, err := votersOf(ctx, c)
		if err != nil {
			return err
		}
		d.Fewest = min(d.Fewest, len(ids))
		if slices.Contains(ids, d.Node) || !slices.Contains(ids, d.Next) {
			return fmt.Errorf("the voters are %v", ids)
		}
		return nil
	})
	if err != nil {
		d.Text = err.Error()
		return err
	}
	d.HealedMs = (a.Rec.Now() - d.At) / 1e6
	a.struck("node-dies", []string{d.Node}, d.At, d.Next+" joined")
	if err := a.crew.acknowledged(ctx, actJobs); err != nil {
		return err
	}
	after, err := a.steady(ctx)
	d.Wanted[1] = after.Autopilot.VotersWanted
	for _, s := range members {
		if !slices.ContainsFunc(after.Nodes, func(n rota.NodeStatus) bool { return string(n.ID) == s.ID }) {
			d.Gone = append(d.Gone, s.ID)
		}
	}
	return err
}

// listEnd reads every job, once all is over.
func (a *aftermath) listEnd(ctx context.Context) error {
	c, err := a.Cluster.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	final, err := a.listAll(ctx, c)
	a.facts.Final, a.facts.Listed = final, err == nil
	return err
}
