package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/server"
)

// DevFlags are the flags of `dev`.
type DevFlags struct {
	Nodes      int
	data       string
	API        string
	background bool
	log        logFlags
}

// DevCommands is dev: a cluster in this process, or in one of its own in the background.
type DevCommands struct{ *cli.App }

// Command returns `rota dev`.
func (a DevCommands) Command() *cobra.Command {
	f := &DevFlags{}
	cmd := &cobra.Command{
		Use:   "dev [--nodes 3] [--data DIR] [--background]",
		Short: "Run a whole cluster in one process on loopback, for trying out",
		Long: `Run a whole cluster in one process on loopback. When it serves, it prints one line: ready
addr=H:P,H:P,H:P. The first node listens on 127.0.0.1:6470, the default of the other commands.
If that is in use it gets another port, for ROTA_ADDR or --addr. Without --data the state is in a
temporary directory, removed at the end; with it the cluster continues the next time, at the
same addresses if they are free.

--background prints ROTA_ADDR, and ROTA_DEV_PID to end the cluster, once the cluster serves.`,
		Example: `  rota dev
  eval "$(rota dev --background)"; rota cluster status; kill $ROTA_DEV_PID`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().IntVar(&f.Nodes, "nodes", 3, "number of nodes: 1, 3 or 5 make sense")
	cli.Within(cmd.Flags(), 1, rota.MaxVoters, "nodes")
	cmd.Flags().StringVar(&f.data, "data", "", "`directory` for the nodes' state (default: a temporary one)")
	cmd.Flags().StringVar(&f.API, "api", "",
		"`host:port` of the first node, which must be free (default: "+DefaultAPI+", or a free port)")
	cmd.Flags().BoolVar(&f.background, "background", false,
		"run in the background, and print variables for the shell")
	f.log.register(cmd)
	f.log.level = "warn"
	cmd.Flags().Lookup("log-level").DefValue = "warn"
	cmd.RunE = a.Does(func(ctx context.Context, _ []string) error {
		work := a.run
		if f.background {
			work = func(ctx context.Context, f *DevFlags) error {
				return a.inBackground(ctx, cmd.LocalNonPersistentFlags())
			}
		}
		if err := work(ctx, f); err != nil {
			return cli.AsFailure(err)
		}
		return nil
	})
	return cmd
}

func (a DevCommands) run(ctx context.Context, f *DevFlags) error {
	if f.API != "" && !server.Loopback(f.API) {
		return cli.Usagef("--api: got %q; dev serves loopback only", f.API)
	}
	log, err := f.log.logger(a.Stderr)
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
	ports, err := a.Ports(dir, f)
	if err != nil {
		return err
	}
	d := &server.Cluster{Open: server.Open, Log: log, Build: ThisVersion().build(),
		Quieten: func() { f.log.least.Set(slog.LevelError) }}
	return d.Run(ctx, dir, ports, func(addrs []string) error {
		if err := RememberPorts(dir, ports); err != nil {
			return err
		}
		a.Talk("a cluster of %s in %s; try: rota --addr %s cluster status", cli.Counted(int64(len(addrs)), "node", ""),
			dir, addrs[0])
		for i, p := range ports {
			a.Talk("node n%d: clients %s, health and metrics http://%s", i+1, p.API, p.Admin)
		}
		a.Talk("console: http://%s/ui/", addrs[0])
		_, err := fmt.Fprintf(a.Stdout, "ready addr=%s\n", strings.Join(addrs, ","))
		return err
	})
}

// takenText stands in the lines that tell of an address that another process has.
const takenText = " is taken by another process: "

// portsFile is where a directory of dev remembers the nodes' addresses.
func portsFile(dir string) string { return filepath.Join(dir, "dev.json") }

// Ports returns the nodes' addresses: those that the directory remembers or the
// default, where they are free, else new ones.
func (a DevCommands) Ports(dir string, f *DevFlags) ([]server.Ports, error) {
	ports := make([]server.Ports, f.Nodes)
	ports[0].API = DefaultAPI
	text, err := os.ReadFile(portsFile(dir))
	switch {
	case err == nil:
		ports = nil
		if err := json.Unmarshal(text, &ports); err != nil {
			return nil, fmt.Errorf("read %s: %w", portsFile(dir), err)
		}
		if len(ports) != f.Nodes {
			return nil, fmt.Errorf("%s was made for %d nodes: --nodes %d, or another --data", dir, len(ports),
				len(ports))
		}
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	if f.API != "" {
		if err := server.TryListen("--api", f.API); err != nil {
			return nil, err
		}
		ports[0].API = f.API
	}
	moved, err := server.OpenPorts(ports)
	if err != nil {
		return nil, err
	}
	for _, m := range moved {
		hint := ""
		if m.To == &ports[0].API {
			hint = fmt.Sprintf(
				"; commands need --addr %s or ROTA_ADDR; or end that process (ss -ltnp shows it) and start again",
				*m.To)
		}
		a.Talk("%s%s%s stands in for it%s", m.From, takenText, *m.To, hint)
	}
	return ports, nil
}

// RememberPorts writes the addresses for the next time, once they serve: until then
// another process may have the directory.
func RememberPorts(dir string, ports []server.Ports) error {
	text, err := json.MarshalIndent(ports, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(portsFile(dir), append(text, '\n'), 0o600)
}
