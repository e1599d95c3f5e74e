package operator

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/serve"
)

const (
	// debugBytes is the bound of an archive where --max-bytes says nothing, minDebug the least.
	debugBytes = 64 << 20
	minDebug   = 1 << 20
	// debugCall bounds a call to one node.
	debugCall = 5 * time.Second
	// debugEvents are the last events that an archive has. All that are retained are read for
	// them, for so long at most.
	debugEvents = 5_000
	debugRead   = time.Minute
	// debugAudit bounds the replay of --audit.
	debugAudit = 15 * time.Minute
)

// debugFlags are the flags of `operator debug`.
type debugFlags struct {
	out, serverConfig, data string
	admins, logs            []string
	interval                time.Duration
	most                    int64
	payloads, audit         bool
	// root has the command `server`, whose settings those of serverConfig are.
	root *cobra.Command
}

func (a Commands) debug() *cobra.Command {
	f := &debugFlags{}
	cmd := &cobra.Command{
		Use:   "debug [--out F] [--admin H:P]… [--log F]… [--server-config F] [--data DIR]",
		Short: "Collect diagnostic data of a cluster in one archive",
		Long: `Collect diagnostic data of all nodes that answer in one archive (tar.gz):

  versions, and cluster status and Raft configuration as each node sees them
  metrics twice, readiness, the last events
  profiles (heap, goroutines, CPU) of nodes with --pprof
  of this machine: the ends of --log, --server-config, and the content of --data (only read)

MANIFEST lists missing parts and reasons. Exit 7 if no node answered and no file was named. Secrets
are never included, payloads and errors of jobs only with --payloads. Ids and the names of
queues, tenants and callers are included.

The default of --admin is port 6472 at each node's API host.`,
		Example: "  rota operator debug --admin 127.0.0.1:6472 --log rota.log --server-config /etc/rota/server.yaml --data /var/lib/rota",
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.Does(func(ctx context.Context, _ []string) error {
		if f.audit && f.data == "" {
			return cli.Usagef("--audit wants --data: the directory of a node that is stopped")
		}
		f.root = cmd.Root()
		return a.collect(ctx, f)
	})
	flags := cmd.Flags()
	flags.StringVar(&f.out, "out", "",
		"`file` to write (default rota-debug-TIME.tar.gz); one that is there is left alone")
	flags.StringSliceVar(&f.admins, "admin", nil, "admin `host:port` of a node; may be repeated")
	flags.StringSliceVar(&f.logs, "log", nil, "`file` with a node's log, of which the end is included; may be repeated")
	flags.StringVar(&f.serverConfig, "server-config", "", "`file` with a node's settings, as its --config")
	flags.StringVar(&f.data, "data", "", "data `directory` of a node on this machine, running or not")
	cli.DurationVar(flags, &f.interval, "interval", 10*time.Second,
		"interval between the two reads of the metrics; the CPU is profiled for half of it")
	cli.Within(flags, time.Second, time.Minute, "interval")
	flags.Int64Var(&f.most, "max-bytes", debugBytes,
		"maximum `bytes` of the archive, before compression; MANIFEST lists the omitted parts")
	cli.Within(flags, minDebug, int64(4<<30), "max-bytes")
	flags.BoolVar(&f.audit, "audit", false,
		"recompute every round in the log of --data, whose node is stopped; it may take minutes")
	flags.BoolVar(&f.payloads, "payloads", false, "include job payloads and other user data")
	return cmd
}

// collected is what `operator debug` says of its archive.
type collected struct {
	File    string         `json:"file"`
	Bytes   int64          `json:"bytes"`
	Files   int            `json:"files"`
	Missing []bundleMissed `json:"missing"`
}

// collect writes the archive.
func (a Commands) collect(ctx context.Context, f *debugFlags) error {
	now := time.Now().UTC()
	root := "rota-debug-" + now.Format("20060102T150405Z")
	if f.out == "" {
		f.out = root + ".tar.gz"
	}
	var b *bundle
	size, err := saveBundle(f.out, func(to io.Writer) error {
		b = newBundle(to, root, f.most, now)
		b.list.Redacted = !f.payloads
		silent, err := a.fill(ctx, b, f)
		if err == nil && len(f.logs) == 0 && f.serverConfig == "" && f.data == "" {
			err = silent
		}
		if err == nil && f.audit {
			err = b.debugAudit(ctx, f.data)
		}
		if err != nil {
			return err
		}
		return b.close()
	})
	if err != nil {
		return err
	}
	for _, m := range b.list.Missing {
		a.Talk("missing: %s: %s", m.Name, m.Why)
	}
	return a.PrintOne(collected{f.out, size, len(b.list.Files), b.list.Missing}, []string{f.out}, func(bool) string {
		return cli.RenderFacts([]cli.Fact{{Name: "file", Value: f.out}, {Name: "bytes", Value: size},
			{Name: "files", Value: len(b.list.Files)}, {Name: "missing", Value: len(b.list.Missing)}})
	})
}

// fill collects everything: what is small and says most comes first, as the bound may cut off
// the rest. silent says why no node answered, where none did.
func (a Commands) fill(ctx context.Context, b *bundle, f *debugFlags) (silent, err error) {
	if err := b.addJSON("version.json", serve.ThisVersion()); err != nil {
		return nil, err
	}
	status, silent, err := a.debugStatus(ctx, b)
	if err != nil {
		return nil, err
	}
	nodes, err := a.debugNodes(ctx, b, status)
	if err == nil && silent == nil {
		err = a.debugQueues(ctx, b)
	}
	if err != nil {
		return nil, err
	}
	if err := b.debugFiles(f); err != nil {
		return nil, err
	}
	admins := f.admins
	if len(admins) == 0 {
		admins = usualAdmins(nodes)
	}
	answered, err := a.debugAdmins(ctx, b, unnamed(admins), f.interval)
	if err != nil {
		return nil, err
	}
	if silent != nil {
		b.miss("events.jsonl", "no node answered")
		if answered {
			silent = nil
		}
		return silent, nil
	}
	return nil, a.debugEvents(ctx, b, f)
}

// debugAdmins adds the pages of admin ports, all asked at once.
func (a Commands) debugAdmins(ctx context.Context, b *bundle, admins []string,
	interval time.Duration) (answered bool, err error) {
	pages := make([]adminPages, len(admins))
	var all sync.WaitGroup
	for i, addr := range admins {
		all.Go(func() { pages[i] = a.askAdmin(ctx, addr, interval) })
	}
	all.Wait()
	for _, page := range slices.Concat(pages...) {
		switch {
		case page.why != "":
			b.miss(page.name, page.why)
			continue
		case strings.HasSuffix(page.name, ".txt"):
			err = b.add(page.name, page.body)
		default:
			err = b.put(page.name, page.body, 0)
		}
		if answered = true; err != nil {
			return answered, err
		}
	}
	return answered, nil
}

// debugStatus adds the cluster's status; silent says why there is none.
func (a Commands) debugStatus(ctx context.Context, b *bundle) (known *rota.ClusterStatus, silent, err error) {
	var status rota.ClusterStatus
	silent = a.atNode(ctx, a.Addrs, func(ctx context.Context, c *client.Client) (err error) {
		status, err = c.Status(ctx)
		return err
	})
	if silent != nil {
		b.miss("status.json", silent.Error())
		return nil, silent, nil
	}
	return &status, nil, b.addJSON("status.json", status)
}

// atNode makes a call that nodes are given a little time for.
func (a Commands) atNode(ctx context.Context, addrs []string, call func(context.Context, *client.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, debugCall)
	defer cancel()
	c, err := a.DialTo(addrs)
	if err != nil {
		return err
	}
	defer c.Close()
	return cli.OutOfTime(ctx, call(ctx, c))
}

// debugNodes adds what each node sees, and returns their API addresses.
func (a Commands) debugNodes(ctx context.Context, b *bundle, status *rota.ClusterStatus) (addrs []string, err error) {
	if status == nil {
		return a.Addrs, nil
	}
	for _, n := range status.Nodes {
		dir := "nodes/" + string(n.ID) + "/"
		if n.API == "" {
			b.miss(dir, "its address is not known: the node is "+n.State)
			continue
		}
		addrs = append(addrs, n.API)
		var sees rota.ClusterStatus
		var peers []rota.RaftPeer
		for _, ask := range []struct {
			name  string
			call  func(context.Context, *client.Client) error
			value func() any
		}{
			{"status.json", func(ctx context.Context, c *client.Client) (err error) {
				sees, err = c.Status(ctx)
				return err
			}, func() any { return sees }},
			{"peers.json", func(ctx context.Context, c *client.Client) (err error) {
				peers, err = c.Peers(ctx)
				return err
			},
				func() any { return map[string]any{"peers": peers} }},
		} {
			if err := a.atNode(ctx, []string{n.API}, ask.call); err != nil {
				b.miss(dir+ask.name, err.Error())
				continue
			}
			if err := b.addJSON(dir+ask.name, ask.value()); err != nil {
				return addrs, err
			}
		}
	}
	return addrs, nil
}

// debugQueues adds the queues and their policies.
func (a Commands) debugQueues(ctx context.Context, b *bundle) error {
	queues := []rota.Queue{}
	err := a.atNode(ctx, a.Addrs, func(ctx context.Context, c *client.Client) error {
		for q, err := range c.Queues(ctx) {
			if err != nil {
				return err
			}
			queues = append(queues, q)
		}
		return nil
	})
	if err != nil {
		b.miss("queues.json", err.Error())
		return nil
	}
	return b.addJSON("queues.json", map[string]any{"queues": queues})
}

// debugEvents adds the last events. What users put into jobs stays out of them, unless asked for.
func (a Commands) debugEvents(ctx context.Context, b *bundle, f *debugFlags) error {
	var last []rota.ServedEvent
	read := func() error {
		ctx, cancel := context.WithTimeout(ctx, debugRead)
		defer cancel()
		return a.With(func(c *client.Client) error {
			for e, err := range c.Events(ctx, rota.EventFilter{}) {
				if err != nil {
					return cli.OutOfTime(ctx, err)
				}
				if last = append(last, e); len(last) > 2*debugEvents {
					last = append(last[:0], last[len(last)-debugEvents:]...)
				}
			}
			return nil
		})
	}
	err := read()
	if err != nil {
		b.miss("events.jsonl", fmt.Sprintf("the list is incomplete: %v", err))
	}
	last = last[max(0, len(last)-debugEvents):]
	var text strings.Builder
	for i := range last {
		if !f.payloads {
			redact(&last[i])
		}
		if err := cli.WriteJSON(&text, &last[i], ""); err != nil {
			return err
		}
	}
	if len(last) == 0 && err != nil {
		return nil
	}
	return b.addTail("events.jsonl", []byte(text.String()), 0)
}

// redact takes out of an event what users put into jobs; its payload's hash stays.
func redact(e *rota.ServedEvent) {
	e.Payload = ""
	if e.Text != "" {
		e.Text = fmt.Sprintf("(%d bytes)", len(e.Text))
	}
}

// debugFiles adds what is on this machine.
func (b *bundle) debugFiles(f *debugFlags) error {
	if f.serverConfig != "" {
		if err := b.debugSettings(f.root, f.serverConfig); err != nil {
			return err
		}
	}
	if f.data != "" {
		if err := b.debugData(f.data); err != nil {
			return err
		}
	}
	for i, path := range f.logs {
		name := fmt.Sprintf("logs/%d-%s", i+1, filepath.Base(path))
		text, cut, err := TailOf(path, f.most/4/int64(len(f.logs)))
		if err != nil {
			b.miss(name, err.Error())
			continue
		}
		if err := b.addTail(name, text, cut); err != nil {
			return err
		}
	}
	return nil
}
