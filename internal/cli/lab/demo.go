package lab

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/loadgen"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/test/rig"
)

// The demonstration's size: some ten seconds of work, the leader's death in
// the midst of it.
const (
	demoNodes   = 3
	demoWorkers = 3
	demoSlots   = 32
	demoRate    = 400.0
	demoLimit   = 2 * time.Minute
	demoPoll    = 5 * time.Millisecond
	// demoStop is how long a node may take to end on SIGTERM.
	demoStop = 12 * time.Second
)

const demoQueue rota.QueueName = "demo"

// demoReport is the proof that ends the demonstration.
type demoReport struct {
	Submitted    int     `json:"submitted"`
	Accepted     int64   `json:"accepted"`
	Completed    int64   `json:"completed"`
	Lost         int64   `json:"lost"`
	Duplicated   int64   `json:"duplicated"`
	Killed       string  `json:"killed"`
	Leader       string  `json:"leader"`
	ElectedMs    float64 `json:"elected_ms"`
	CommitMs     float64 `json:"first_commit_ms"`
	CaughtUpMs   float64 `json:"caught_up_ms"`
	Digest       string  `json:"digest"`
	DigestsEqual bool    `json:"digests_equal"`
	Violations   int     `json:"violations"`
}

// DemoCommands has the command `rota demo`.
type DemoCommands struct{ *cli.App }

// Command returns `rota demo`.
func (a DemoCommands) Command() *cobra.Command {
	jobs := 0
	keep := false
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Start three nodes, kill the leader during work, and count lost jobs",
		Long: `Start three nodes as processes on loopback, submit jobs, kill the leader with SIGKILL, watch the
failover, restart the node, wait for the rest, and compare all nodes. Exit 1 if a job was lost or
done twice.`,
		Args: cobra.NoArgs,
		RunE: a.Does(func(ctx context.Context, _ []string) error {
			ctx, cancel := context.WithTimeout(ctx, demoLimit)
			defer cancel()
			return a.demo(ctx, jobs, keep)
		}),
	}
	cmd.Flags().IntVar(&jobs, "jobs", 4_000, "number of jobs")
	cli.Within(cmd.Flags(), 1, cli.MaxBenchJobs, "jobs")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the directory with the nodes' state and logs")
	return cmd
}

// demonstration is one being given.
type demonstration struct {
	a      *cli.App
	c      *client.Client
	nodes  rig.Nodes
	ledger *loadgen.Ledger
	show   *cli.Watcher
	report demoReport
}

func (a DemoCommands) demo(ctx context.Context, jobs int, keep bool) (err error) {
	dir, err := os.MkdirTemp("", "rota-demo-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil || keep {
			a.Talk("the nodes' state and logs are in %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	}()
	d := &demonstration{a: a.App, report: demoReport{Submitted: jobs}}
	defer d.end()
	a.Talk("starting %d nodes in %s", demoNodes, dir)
	if err := d.begin(ctx, dir); err != nil {
		return err
	}
	if err := d.work(ctx, jobs); err != nil {
		return err
	}
	if err := d.verify(ctx); err != nil {
		return err
	}
	return d.print()
}

// begin starts the nodes and waits until all serve.
func (d *demonstration) begin(ctx context.Context, dir string) error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	begun := time.Now()
	if d.nodes, err = rig.NewNodes(demoNodes, dir, binary); err != nil {
		return err
	}
	for _, n := range d.nodes {
		n.Flags, n.Env = append(n.Flags, "--cluster", "demo"), rig.Inherited()
	}
	if err := d.nodes.Start(ctx); err != nil {
		return err
	}
	d.a.Talk("all nodes are ready after %s; they answer at %s", time.Since(begun).Round(time.Millisecond),
		strings.Join(d.nodes.APIs(), ","))
	d.a.Addrs, d.a.TLS = d.nodes.APIs(), cli.TLSFiles{}
	d.c, err = d.nodes.Dial()
	return err
}

// work submits the jobs, and meanwhile lets the leader die and come back.
func (d *demonstration) work(ctx context.Context, jobs int) error {
	lab := labOf(d.a, d.c)
	lab.Watch = func(_ string, total int64, value func() int64) (stop func()) {
		d.a.Talk("submitting %d jobs, %g a second, to %d workers of %d slots", jobs, demoRate, demoWorkers, demoSlots)
		d.show = d.a.Watch("jobs completed", total, value)
		return d.show.Stop
	}
	if err := lab.EnsureQueues(ctx, demoQueue); err != nil {
		return err
	}
	r, _, err := lab.Run(ctx, loadgen.Load{
		Kind: "demo", Jobs: jobs, Producers: 16, Batch: 100, At: loadgen.Steady(demoRate), Patience: loadgen.Patience,
		Workers: loadgen.Workers{Queues: []rota.QueueName{demoQueue}, Count: demoWorkers, Slots: demoSlots,
			Prefetch: demoSlots,
			Handle:   loadgen.Simulate},
		Spec: func(i int, id rota.JobID) rota.JobSpec {
			s := rota.NewJobSpec("demo", fmt.Appendf(nil, `{"n":%d}`, i))
			s.ID, s.Queue, s.Tenant, s.Simulate = id, demoQueue, rota.DefaultTenant, millis.Duration(int64(10+i%40))
			return s
		},
		Meanwhile: func(ctx context.Context, l *loadgen.Ledger) error {
			d.ledger = l
			return d.failover(ctx, int64(jobs)/3)
		},
	})
	if err != nil {
		return err
	}
	d.report.Accepted, d.report.Completed = r.Accepted, r.Completed
	d.report.Lost, d.report.Duplicated = r.Lost, r.Duplicated
	return nil
}

// failover kills the leader once `after` jobs are done, and prints each step of the recovery.
func (d *demonstration) failover(ctx context.Context, after int64) error {
	if err := until(ctx, func() bool { return d.ledger.Completed() >= after }); err != nil {
		return err
	}
	before, err := d.c.Status(ctx)
	if err != nil {
		return err
	}
	leader := d.nodes.ByID(string(before.Leader))
	if leader == nil {
		return cli.Failf("the leader %q is not one of the demo's nodes", before.Leader)
	}
	others, err := d.others(leader).Dial()
	if err != nil {
		return err
	}
	defer others.Close()
	d.show.Say("%6d jobs are done; SIGKILL to %s, the leader of term %d (pid %d)", d.ledger.Completed(),
		leader.ID, before.Term, leader.Life().PID())
	killed := d.ledger.Now()
	leader.Kill()
	committed := make(chan error, 1)
	go func() {
		committed <- until(ctx, func() bool {
			d.report.CommitMs = d.firstAnswer(killed)
			return d.report.CommitMs > 0
		})
	}()
	if err := d.election(ctx, others, before, killed); err != nil {
		return err
	}
	if err := <-committed; err != nil {
		return fmt.Errorf("no job was accepted after the leader's death: %w", err)
	}
	d.show.Say("%6.0f ms the first job due after the kill is accepted", d.report.CommitMs)
	return d.comeBack(ctx, leader)
}

// election waits for a leader other than the one before. It reads the configuration, which a node answers by itself: a
// status would also ask the dead node.
func (d *demonstration) election(ctx context.Context, others *client.Client, before rota.ClusterStatus,
	killed int64) error {
	d.report.Killed = string(before.Leader)
	err := until(ctx, func() bool {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		peers, err := others.Peers(ctx)
		if err != nil {
			return false
		}
		for _, p := range peers {
			if p.Leader && p.ID != before.Leader {
				d.report.Leader = string(p.ID)
			}
		}
		return d.report.Leader != ""
	})
	if err != nil {
		return fmt.Errorf("no new leader: %w", err)
	}
	d.report.ElectedMs = loadgen.RoundTo(float64(d.ledger.Now()-killed)/1e6, 10)
	d.show.Say("%6.0f ms %s leads", d.report.ElectedMs, d.report.Leader)
	return nil
}

// comeBack restarts the killed node with its data directory.
func (d *demonstration) comeBack(ctx context.Context, n *rig.Node) error {
	begun := time.Now()
	if err := n.Start(); err != nil {
		return err
	}
	d.show.Say("       %s restarts with its old data", n.ID)
	if err := n.AwaitReady(ctx); err != nil {
		return err
	}
	d.report.CaughtUpMs = loadgen.RoundTo(float64(time.Since(begun))/1e6, 10)
	d.show.Say("%6.0f ms after its start %s has caught up", d.report.CaughtUpMs, n.ID)
	return nil
}

// firstAnswer returns the time in milliseconds from the kill until the first job due after it was accepted; 0 if none
// was accepted yet.
func (d *demonstration) firstAnswer(killed int64) float64 {
	first := d.ledger.FirstAnswer(killed)
	if first == 0 {
		return 0
	}
	return max(loadgen.RoundTo(float64(first-killed)/1e6, 10), 0.1)
}

// verify has every node walk its invariants and compares their digests.
func (d *demonstration) verify(ctx context.Context) error {
	v, err := d.c.Verify(ctx)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	d.report.DigestsEqual = v.Equal
	for _, n := range v.Nodes {
		d.report.Violations += len(n.Violations)
		d.report.Digest = n.Digest.String()
	}
	return cli.VerdictError(v)
}

// print ends with the proof.
func (d *demonstration) print() error {
	r := &d.report
	err := d.a.PrintOne(r, nil, func(bool) string {
		return cli.RenderFacts([]cli.Fact{
			{Name: "submitted", Value: r.Submitted}, {Name: "accepted", Value: r.Accepted},
			{Name: "completed", Value: r.Completed},
			{Name: "lost", Value: r.Lost}, {Name: "duplicated", Value: r.Duplicated},
			{Name: "leader killed", Value: r.Killed}, {Name: "new leader",
				Value: fmt.Sprintf("%s after %.0f ms", r.Leader, r.ElectedMs)},
			{Name: "first commit", Value: fmt.Sprintf("after %.0f ms", r.CommitMs)},
			{Name: "nodes' digests", Value: fmt.Sprintf("equal: %t (%s)", r.DigestsEqual, r.Digest)},
			{Name: "violations", Value: r.Violations},
		})
	})
	if err != nil {
		return err
	}
	if r.Lost > 0 || r.Duplicated > 0 || r.Accepted != int64(r.Submitted) || r.Completed != r.Accepted {
		return cli.Failf("%d jobs were submitted, %d accepted, %d completed, %d lost, %d done twice",
			r.Submitted, r.Accepted, r.Completed, r.Lost, r.Duplicated)
	}
	return nil
}

// others are all nodes but one.
func (d *demonstration) others(but *rig.Node) (others rig.Nodes) {
	for _, n := range d.nodes {
		if n != but {
			others = append(others, n)
		}
	}
	return others
}

// end ends the nodes, all at once.
func (d *demonstration) end() {
	if d.c != nil {
		_ = d.c.Close()
	}
	_ = d.nodes.Stop(demoStop)
}

// until waits for a condition, looking often.
func until(ctx context.Context, condition func() bool) error {
	for !condition() {
		if err := cli.Pause(ctx, demoPoll); err != nil {
			return err
		}
	}
	return nil
}
