package serve

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/auth"
	"github.com/rotasched/rota/internal/identity"
	"github.com/rotasched/rota/internal/logs"
	"github.com/rotasched/rota/internal/secret"
	"github.com/rotasched/rota/internal/server"
)

// The addresses of a node that is told none. Loopback everywhere.
const (
	DefaultAPI     = "127.0.0.1:6470"
	DefaultRaft    = "127.0.0.1:6471"
	DefaultCluster = "rota"
	DefaultAdmin   = "127.0.0.1:6472"
	DefaultGossip  = "127.0.0.1:6473"
)

// ServerFlags are the flags of `server`.
type ServerFlags struct {
	Node, Data               string
	API, Raft, Admin, Gossip string
	Join                     []string
	BootstrapExpect          int
	nonVoter                 bool
	Cluster                  string
	GossipKeyFile            string
	NodeCA, TrustDomain      string
	clientCA                 string
	Insecure                 bool
	ui                       bool
	adoptData, dumpable      bool
	markFile                 string
	check                    bool
	profiles                 bool
	attestationKeys          []string
	attesting                auth.LiveAttestationKeys
	log                      logFlags
	tuning                   tuning
	apiHosts, corsOrigins    []string
	uiOrigin                 string
}

// ServerCommands has the command `rota server`.
type ServerCommands struct{ *cli.App }

// Command returns `rota server`.
func (a ServerCommands) Command() *cobra.Command {
	f := &ServerFlags{}
	cmd := &cobra.Command{
		Use:   "server --node ID --data DIR [--bootstrap-expect N] [--join H:P]…",
		Short: "Run one node of a cluster until SIGTERM or SIGINT",
		Long: `Run one node of a cluster. On SIGTERM or SIGINT it hands leadership over, drains its
streams and exits with 0.

Everything listens on loopback by default. Another address needs --tls-cert, --tls-key,
--node-ca and --gossip-key-file, or --insecure. The node's certificate has one URI,
spiffe://CLUSTER/node/ID (see rota tls). Beyond loopback, clients show certificates of
--client-ca, which name their roles. The admin port answers /healthz, /readyz (503 until a
leader is known and the node has caught up) and /metrics.

--check prints one fault a line. Exit 2 if a flag is wrong, 1 for other faults, else 0. A
directory that this node's process has open is only checked from outside.`,
		Args: cobra.NoArgs,
		RunE: a.Does(func(ctx context.Context, _ []string) error {
			if f.check {
				return a.checkServer(f)
			}
			return cli.AsFailure(Paged(a.serve(ctx, f)))
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Node, "node", "", "this node's `id`, bound to its data directory forever")
	flags.StringVar(&f.Data, "data", "", "data `directory`")
	flags.StringVar(&f.API, "api", DefaultAPI, "`host:port` for clients, workers and other nodes' calls")
	flags.StringVar(&f.Raft, "raft", DefaultRaft, "`host:port` for Raft")
	flags.StringVar(&f.Admin, "admin", DefaultAdmin, "`host:port` for health and metrics")
	flags.BoolVar(&f.profiles, "pprof", false,
		"serve profiles at the admin port under /debug/pprof; they show this command line too")
	flags.StringVar(&f.Gossip, "gossip", DefaultGossip, "`host:port` for gossip, UDP and TCP")
	flags.StringSliceVar(&f.Join, "join", nil,
		"gossip `host:port` of another node, up or not yet; may be repeated")
	flags.IntVar(&f.BootstrapExpect, "bootstrap-expect", 0,
		"found a cluster once this number of fresh nodes see each other")
	cli.Within(flags, 0, rota.MaxVoters, "bootstrap-expect")
	flags.BoolVar(&f.nonVoter, "non-voter", false, "never vote: follow the log, and serve reads and workers")
	flags.StringVar(&f.Cluster, "cluster", DefaultCluster,
		"`name` of the cluster; nodes with another name are rejected")
	flags.StringVar(&f.GossipKeyFile, "gossip-key-file", "",
		"`file` with the keys of gossip, one a line, of 16, 24 or 32 bytes: the first encrypts, all decrypt")
	flags.StringVar(&f.clientCA, "client-ca", "",
		"`file` with the authorities of clients' certificates (PEM), which name the callers' roles")
	flags.StringVar(&f.NodeCA, "node-ca", "",
		"`file` with the authorities of nodes' certificates (PEM); default: --tls-ca")
	flags.StringVar(&f.TrustDomain, "trust-domain", "", "`name` in certificates' URIs, where it is not the cluster's")
	flags.BoolVar(&f.Insecure, "insecure", false, "allow other addresses than loopback in clear text")
	flags.BoolVar(&f.ui, "ui", true, "serve the web console at the API's port under /ui")
	flags.BoolVar(&f.adoptData, "adopt-data", false, "once, accept a moved or copied data directory: "+
		"only if the original is gone forever and this is its only and newest copy")
	flags.StringVar(&f.markFile, "mark-file", "",
		"`file`, on another disk than --data, with the end of this node's log: a start with an older disk is refused")
	flags.BoolVar(&f.check, "check", false,
		"start nothing: report all faults of the settings, the files and the data directory, and exit")
	flags.BoolVar(&f.dumpable, "dumpable", false,
		"allow core dumps, and debuggers of this account; both show keys and the content of jobs")
	flags.StringSliceVar(&f.attestationKeys, "attestation-key", nil,
		"`file` with Ed25519 public keys of accepted attestations, PEM or one a line in hex; may be repeated")
	flags.StringSliceVar(&f.apiHosts, "api-host", nil,
		"`name` that HTTP requests may use besides the node's addresses and certificate's names, such as a proxy's; "+
			"may be repeated")
	flags.StringVar(&f.uiOrigin, "ui-origin", "",
		"only `origin` of the console of all nodes, such as https://rota.example of a load balancer")
	flags.StringSliceVar(&f.corsOrigins, "cors-origin", nil, "`origin` of web pages that may ask this node, such as "+
		"https://console.example; may be repeated")
	f.tuning.register(flags)
	f.log.register(cmd)
	return cmd
}

func (a ServerCommands) serve(ctx context.Context, f *ServerFlags) error {
	log, err := f.log.logger(a.Stderr)
	if err != nil {
		return err
	}
	if err := f.hide(); err != nil {
		return err
	}
	plan, live, err := f.Plan(a.TLS)
	if err != nil {
		return err
	}
	log = log.With("node", f.Node)
	go secret.Follow(ctx, func() {
		f.attesting.Tell(log)
		if live != nil {
			live.Tell(log, time.Now())
		}
	})
	if f.clientCA == "" && !f.Insecure && !server.Loopback(f.API) {
		log.Warn("client certificates are not accepted: without --client-ca only tokens give access", "api", f.API)
	}
	return server.Run(ctx, plan, log)
}

// hide keeps the memory of this process, which will hold keys, from others.
func (f *ServerFlags) hide() error {
	if f.dumpable {
		return nil
	}
	return errors.Join(secret.Hide(), secret.NoCore())
}

// Plan checks the flags and the files that they name, all faults together. live is what the
// certificates of the plan come from; nil for clear text.
func (f *ServerFlags) Plan(files cli.TLSFiles) (p *server.Plan, live *cli.LiveTLS, err error) {
	p, live, faults := f.plans(files)
	return p, live, faults.Err()
}

// plans is plan with each fault by itself.
func (f *ServerFlags) plans(files cli.TLSFiles) (p *server.Plan, live *cli.LiveTLS, faults cli.StartFaults) {
	fault := func(format string, args ...any) { faults = append(faults, cli.Usagef(format, args...)) }
	if f.Node == "" {
		fault("--node is missing: an id for this node")
	} else if err := rota.CheckID("--node", f.Node); err != nil {
		fault("%v", err)
	}
	if err := rota.CheckID("--cluster", f.Cluster); err != nil {
		fault("%v", err)
	}
	if f.Data == "" {
		fault("--data is missing: a directory for this node's state")
	}
	p = &server.Plan{Listen: f.API, Admin: f.Admin, Profiles: f.profiles, NoConsole: !f.ui,
		Build: ThisVersion().build(), Node: cluster.Config{
			Node: rota.NodeID(f.Node), Cluster: f.Cluster, Data: f.Data, Join: f.Join,
			BootstrapExpect: f.BootstrapExpect, NonVoter: f.nonVoter, GossipKeyFile: f.GossipKeyFile,
			Insecure: f.Insecure, AdoptData: f.adoptData, MarkFile: f.markFile,
		}}
	p.Node.Open = f.Insecure || server.Loopback(f.API)
	f.tuning.apply(p)
	if at, err := url.Parse(f.uiOrigin); f.uiOrigin != "" &&
		(err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" ||
			f.uiOrigin != at.Scheme+"://"+strings.ToLower(at.Host)) {
		fault("--ui-origin: got %q; use an origin such as https://rota.example", f.uiOrigin)
	}
	p.Hosts.Names, p.Hosts.Origins, p.Hosts.UI = f.apiHosts, f.corsOrigins, f.uiOrigin
	for _, addr := range []struct {
		flag, value string
		into        *string
	}{{"--api", f.API, &p.Node.API}, {"--raft", f.Raft, &p.Node.Raft}, {"--gossip", f.Gossip, &p.Node.Gossip},
		{"--admin", f.Admin, nil}} {
		reach, err := server.Reachable(addr.value)
		if err != nil {
			fault("%s: got %q: %v", addr.flag, addr.value, err)
		}
		if addr.into != nil {
			*addr.into = reach
		}
	}
	for _, j := range f.Join {
		if _, _, err := net.SplitHostPort(j); err != nil {
			fault("--join: got %q; use host:port", j)
		}
	}
	f.attesting.Files = f.attestationKeys
	p.Node.AttestationKeys = f.attesting.Now
	if _, err := f.attesting.Look(); err != nil {
		fault("%v", err)
	}
	files.CA = cmp.Or(f.NodeCA, files.CA)
	open := f.exposed(files)
	if p.Node.Exposed = len(open) > 0; p.Node.Exposed && !f.Insecure {
		faults = append(faults, cli.Failf(
			"%s is no loopback address: give --tls-cert, --tls-key, --node-ca and --gossip-key-file, "+
				"or spell out --insecure", strings.Join(open, ", ")))
	}
	live, wrong := f.secure(p, files)
	return p, live, append(faults, wrong...)
}

// exposed lists addresses beyond loopback that nothing protects, or where --insecure asks for
// nobody's credential.
func (f *ServerFlags) exposed(files cli.TLSFiles) []string {
	var open []string
	for _, addr := range []struct {
		flag, value string
		safe        bool
	}{
		{"--api", f.API, files.Complete()}, {"--raft", f.Raft, files.Complete()},
		{"--gossip", f.Gossip, f.GossipKeyFile != ""}, {"--admin", f.Admin, files.Complete()},
	} {
		if (f.Insecure || !addr.safe) && !server.Loopback(addr.value) {
			open = append(open, addr.flag+" "+addr.value)
		}
	}
	return open
}

// secure sets the certificates of a plan, and returns what they come from.
func (f *ServerFlags) secure(p *server.Plan, files cli.TLSFiles) (*cli.LiveTLS, cli.StartFaults) {
	if files == (cli.TLSFiles{}) {
		if f.clientCA != "" {
			return nil, cli.StartFaults{cli.Failf(
				"--client-ca needs --tls-cert, --tls-key and --node-ca: clients show certificates under TLS only")}
		}
		return nil, nil
	}
	if !files.Complete() {
		return nil, cli.StartFaults{cli.Failf(
			"--tls-cert, --tls-key and --node-ca go together: a node shows a certificate and judges others'")}
	}
	if faults := files.Faults(f.clientCA); len(faults) > 0 || rota.CheckID("--node", f.Node) != nil {
		return nil, faults
	}
	member := &cli.MemberTLS{Domain: cmp.Or(f.TrustDomain, f.Cluster), Node: p.Node.Node, ClientCA: f.clientCA}
	if _, err := identity.NodeURI(member.Domain, member.Node); err != nil {
		return nil, cli.StartFaults{cli.Usagef("%w", err)}
	}
	live, err := files.Live(member)
	if err != nil {
		return nil, cli.StartFaults{err}
	}
	mutual := live.Mutual()
	p.Hosts.Certificate = live.Leaf
	p.Node.CertificateEnds = func() time.Time { return live.Leaf().NotAfter }
	p.TLS, p.Node.ServerTLS, p.Node.ClientTLS, p.Node.NodeOf = live.Serving(), mutual, mutual, live.NodeOf
	p.ClientOf = live.ClientOf
	return live, nil
}

// logFlags say how a node logs.
type logFlags struct {
	format, level string
	// least may be raised later.
	least slog.LevelVar
}

func (l *logFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.format, "log-format", "text", "`format` of the log on stderr: text, json")
	cmd.Flags().StringVar(&l.level, "log-level", "info", "minimum `level` logged: debug, info, warn, error")
}

func (l *logFlags) logger(to interface{ Write([]byte) (int, error) }) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return nil, cli.Usagef("%w", cli.Unknown("log-level", "--log-level", l.level,
			[]string{"debug", "info", "warn", "error"}))
	}
	l.least.Set(level)
	options, masked := &slog.HandlerOptions{Level: &l.least}, logs.Masking(to)
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(masked, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(masked, options)), nil
	default:
		return nil, cli.Usagef("%w", cli.Unknown("log-format", "--log-format", l.format, []string{"text", "json"}))
	}
}
