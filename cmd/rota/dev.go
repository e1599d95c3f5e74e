package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster"
)

// devFlags are the flags of `dev`.
type devFlags struct {
	nodes      int
	data       string
	api        string
	background bool
	log        logFlags
}

// devReady bounds the time until a dev cluster serves, which is looked at every devPoll.
const (
	devReady = 60 * time.Second
	devPoll  = 20 * time.Millisecond
)

// devCommands is dev: a cluster in this process, or in one of its own in the background.
type devCommands struct{ *app }

func (a devCommands) command() *cobra.Command {
	f := &devFlags{}
	cmd := &cobra.Command{
		Use:   "dev [--nodes 3] [--data DIR] [--background]",
		Short: "Run a whole cluster in one process on loopback, for trying out",
		Long: `Run a whole cluster in one process on loopback. When it serves, one line goes to stdout:
ready addr=H:P,H:P,H:P. The first node listens on 127.0.0.1:6470, where the other commands
look for a cluster; where that is taken it gets another port, and ROTA_ADDR or --addr must
name it. Without --data the state is in a temporary directory, removed at the end; with it
the cluster is there again the next time, at the same addresses where they are free.

With --background the cluster goes on after this command, which ends once it serves and
prints what a shell evaluates: ROTA_ADDR, and ROTA_DEV_PID to end it with.`,
		Example: `  rota dev
  eval "$(rota dev --background)"; rota cluster status; kill $ROTA_DEV_PID`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().IntVar(&f.nodes, "nodes", 3, "how many nodes: 1, 3 or 5 make sense")
	within(cmd.Flags(), 1, cluster.MaxVoters, "nodes")
	cmd.Flags().StringVar(&f.data, "data", "", "`directory` for the nodes' state (default: a temporary one)")
	cmd.Flags().StringVar(&f.api, "api", "",
		"`host:port` of the first node, which must be free (default: "+defaultAPI+", or a free port)")
	cmd.Flags().BoolVar(&f.background, "background", false, "go on in the background, and print variables for the shell")
	f.log.register(cmd)
	f.log.level = "warn"
	cmd.Flags().Lookup("log-level").DefValue = "warn"
	cmd.RunE = a.does(func(ctx context.Context, _ []string) error {
		work := a.run
		if f.background {
			work = func(ctx context.Context, f *devFlags) error {
				return a.inBackground(ctx, cmd.LocalNonPersistentFlags())
			}
		}
		if err := work(ctx, f); err != nil {
			return asFailure(err)
		}
		return nil
	})
	return cmd
}

func (a devCommands) run(ctx context.Context, f *devFlags) error {
	if f.api != "" && !loopback(f.api) {
		return usagef("--api %q is refused: dev serves loopback only", f.api)
	}
	log, err := f.log.logger(a.stderr)
	if err != nil {
		return err
	}
	dir := f.data
	if dir == "" {
		if dir, err = os.MkdirTemp("", "rota-dev-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	ports, err := a.ports(dir, f)
	if err != nil {
		return err
	}
	d := &devCluster{open: openClusterNode, log: log, quieten: func() { f.log.least.Set(slog.LevelError) }}
	err = d.run(ctx, dir, ports, func(addrs []string) error {
		if err := rememberPorts(dir, ports); err != nil {
			return err
		}
		a.talk("a cluster of %d nodes in %s; try: rota --addr %s cluster status", len(addrs), dir, addrs[0])
		for i, p := range ports {
			a.talk("node n%d: clients %s, health and metrics http://%s", i+1, p.API, p.Admin)
		}
		_, err := fmt.Fprintf(a.stdout, "ready addr=%s\n", strings.Join(addrs, ","))
		return err
	})
	return err
}

// takenText stands in the lines that tell of an address that another process has.
const takenText = " is taken by another process: "

// portsFile is where a directory of dev remembers the nodes' addresses.
func portsFile(dir string) string { return filepath.Join(dir, "dev.json") }

// ports returns the nodes' addresses: those that the directory remembers or the
// default, where they are free, else new ones.
func (a devCommands) ports(dir string, f *devFlags) ([]nodePorts, error) {
	ports := make([]nodePorts, f.nodes)
	ports[0].API = defaultAPI
	text, err := os.ReadFile(portsFile(dir))
	switch {
	case err == nil:
		ports = nil
		if err := json.Unmarshal(text, &ports); err != nil {
			return nil, fmt.Errorf("read %s: %w", portsFile(dir), err)
		}
		if len(ports) != f.nodes {
			return nil, fmt.Errorf("%s was made for %d nodes: --nodes %d, or another --data", dir, len(ports), len(ports))
		}
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	if f.api != "" {
		if err := tryListeners([]listener{{"--api", f.api, false}}); err != nil {
			return nil, err
		}
		ports[0].API = f.api
	}
	moved, err := openPorts(ports)
	if err != nil {
		return nil, err
	}
	for _, m := range moved {
		hint := ""
		if m.to == &ports[0].API {
			hint = fmt.Sprintf("; commands need --addr %s or ROTA_ADDR; or end that process (ss -ltnp shows it) and begin anew", *m.to)
		}
		a.talk("%s%s%s stands in for it%s", m.from, takenText, *m.to, hint)
	}
	return ports, nil
}

// rememberPorts writes the addresses for the next time, once they serve: until then
// another process may have the directory.
func rememberPorts(dir string, ports []nodePorts) error {
	text, err := json.MarshalIndent(ports, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(portsFile(dir), append(text, '\n'), 0o600)
}

// devCluster is a whole cluster in this process.
type devCluster struct {
	open  nodeOpener
	log   *slog.Logger
	nodes []*runningNode
	// quieten ends warnings: nodes that go together miss each other.
	quieten func()
}

// run starts the nodes, says so when all serve, and stops them when ctx ends.
func (d *devCluster) run(ctx context.Context, dir string, ports []nodePorts,
	ready func(addrs []string) error) error {
	defer func() {
		if err := d.stop(); err != nil {
			d.log.Warn("cluster did not stop cleanly", "err", err)
		}
	}()
	addrs := make([]string, len(ports))
	for i, p := range ports {
		addrs[i] = p.API
	}
	if err := d.start(ctx, dir, ports); err != nil {
		return err
	}
	if err := d.awaitReady(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if err := ready(addrs); err != nil {
		return err
	}
	return d.wait(ctx)
}

// start starts all nodes at once: none founds a cluster before all are there. One that
// cannot start ends the others, which would wait for it.
func (d *devCluster) start(ctx context.Context, dir string, ports []nodePorts) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed sync.Once
	var first error
	nodes := make([]*runningNode, len(ports))
	var all sync.WaitGroup
	for i, p := range ports {
		id := rota.NodeID(fmt.Sprintf("n%d", i+1))
		plan := &nodePlan{
			id: id, cluster: "dev", data: filepath.Join(dir, string(id)), api: p.API, advertised: p.API,
			raft: p.Raft, gossip: p.Gossip, admin: p.Admin, bootstrapExpect: len(ports),
		}
		for k, other := range ports {
			if k != i {
				plan.join = append(plan.join, other.Gossip)
			}
		}
		all.Go(func() {
			var err error
			if nodes[i], err = startNode(ctx, plan, d.open, d.log.With("node", string(id))); err != nil {
				failed.Do(func() { first = fmt.Errorf("node %s: %w", id, err) })
				cancel()
			}
		})
	}
	all.Wait()
	for _, n := range nodes {
		if n != nil {
			d.nodes = append(d.nodes, n)
		}
	}
	return first
}

func (d *devCluster) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, devReady)
	defer cancel()
	for _, n := range d.nodes {
		for {
			err := n.node.Ready()
			if err == nil {
				break
			}
			if pause(ctx, devPoll) != nil {
				return fmt.Errorf("node %s is not ready: %w", n.plan.id, err)
			}
		}
	}
	return nil
}

// wait returns when ctx ended, or with the first node's trouble.
func (d *devCluster) wait(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	troubles := make(chan error, len(d.nodes))
	for _, n := range d.nodes {
		go func() { troubles <- n.wait(ctx) }()
	}
	var first error
	for range d.nodes {
		if err := <-troubles; err != nil && first == nil {
			first = err
			cancel()
		}
	}
	return first
}

// stop ends all nodes at once; the whole cluster goes, so nobody waits for a
// new leader.
func (d *devCluster) stop() error {
	d.quieten()
	errs := make([]error, len(d.nodes))
	var all sync.WaitGroup
	for i, n := range d.nodes {
		all.Go(func() {
			n.server.Close()
			errs[i] = n.close()
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
