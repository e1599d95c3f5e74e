package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster"
)

// The addresses of a node that is told none. Loopback everywhere.
const (
	defaultAPI     = "127.0.0.1:6470"
	defaultRaft    = "127.0.0.1:6471"
	defaultCluster = "rota"
	defaultAdmin   = "127.0.0.1:6472"
	defaultGossip  = "127.0.0.1:6473"
)

// serverFlags are the flags of `server`.
type serverFlags struct {
	node, data               string
	api, raft, admin, gossip string
	join                     []string
	bootstrapExpect          int
	cluster                  string
	gossipKeyFile            string
	insecure                 bool
	adoptData                bool
	attestationKeys          []string
	log                      logFlags
	tuning                   tuning
}

func (a *app) serverCommand() *cobra.Command {
	f := &serverFlags{}
	cmd := &cobra.Command{
		Use:   "server --node ID --data DIR [--bootstrap-expect N] [--join H:P]…",
		Short: "Run one node of a cluster until SIGTERM or SIGINT",
		Long: `Run one node of a cluster. On SIGTERM or SIGINT it hands leadership over, drains its
streams and exits with 0.

Everything listens on loopback if not told otherwise. Another address needs --tls-cert,
--tls-key, --tls-ca and --gossip-key-file, or --insecure spelt out. The admin port answers
/healthz, /readyz (503 until a leader is known and the node has caught up), /metrics and
/debug/pprof.`,
		Args: cobra.NoArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			if err := a.serve(ctx, f); err != nil {
				return asFailure(err)
			}
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.node, "node", "", "this node's `id`, for ever bound to its data directory")
	flags.StringVar(&f.data, "data", "", "data `directory`")
	flags.StringVar(&f.api, "api", defaultAPI, "`host:port` for clients, workers and other nodes' calls")
	flags.StringVar(&f.raft, "raft", defaultRaft, "`host:port` for Raft")
	flags.StringVar(&f.admin, "admin", defaultAdmin, "`host:port` for health, metrics and profiles")
	flags.StringVar(&f.gossip, "gossip", defaultGossip, "`host:port` for gossip, UDP and TCP")
	flags.StringSliceVar(&f.join, "join", nil,
		"gossip `host:port` of another node, up or not yet; may be repeated")
	flags.IntVar(&f.bootstrapExpect, "bootstrap-expect", 0,
		"found a cluster once so many fresh nodes see each other")
	within(flags, 0, cluster.MaxVoters, "bootstrap-expect")
	flags.StringVar(&f.cluster, "cluster", defaultCluster,
		"`name` of the cluster; nodes of another name are refused")
	flags.StringVar(&f.gossipKeyFile, "gossip-key-file", "", "`file` with the key of gossip, 16, 24 or 32 bytes")
	flags.BoolVar(&f.insecure, "insecure", false, "allow other addresses than loopback in clear text")
	flags.BoolVar(&f.adoptData, "adopt-data", false, "once, take a data directory that was moved or copied here: "+
		"only where the original is gone for good and this is its only and newest copy")
	flags.StringSliceVar(&f.attestationKeys, "attestation-key", nil,
		"`file` with Ed25519 public keys, PEM or one a line in hex, whose word on workers counts; may be repeated")
	f.tuning.register(flags)
	f.log.register(cmd)
	return cmd
}

// asFailure makes a refusal to start exit code 1, whatever its kind: the
// binary was called rightly, the node cannot be. A wrong flag stays usage.
func asFailure(err error) error {
	var coded *codedError
	if errors.As(err, &coded) {
		return err
	}
	return &codedError{exitFailed, err}
}

func (a *app) serve(ctx context.Context, f *serverFlags) error {
	log, err := f.log.logger(a.stderr)
	if err != nil {
		return err
	}
	plan, err := f.plan(a.tls)
	if err != nil {
		return err
	}
	log = log.With("node", string(plan.id))
	if plan.liveTLS != nil {
		go plan.liveTLS.follow(ctx, log)
	}
	if err := tryListeners(plan.listeners()); err != nil {
		return err
	}
	roomForDisks()
	go tuneGC(ctx)
	r, err := startNode(ctx, plan, openClusterNode, log)
	switch {
	case err != nil && ctx.Err() != nil:
		log.Info("node was stopped while it started")
		return nil
	case err != nil:
		return err
	}
	log.Info("node serves", "api", plan.advertised, "raft", plan.raft, "gossip", plan.gossip, "admin",
		plan.admin,
		"version", version, "insecure", f.insecure)
	if err := r.wait(ctx); err != nil {
		log.Error("node stops", "err", err)
		r.abandon()
		return err
	}
	log.Info("node goes: handing over and draining")
	if err := r.shutdown(); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	log.Info("node is stopped")
	return nil
}

// plan checks the flags, all faults together.
func (f *serverFlags) plan(files tlsFiles) (*nodePlan, error) {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if f.node == "" {
		fault("--node is missing: an id for this node")
	} else if err := rota.CheckID("--node", f.node); err != nil {
		fault("%v", err)
	}
	if f.data == "" {
		fault("--data is missing: a directory for this node's state")
	}
	p := &nodePlan{
		id: rota.NodeID(f.node), cluster: f.cluster, data: f.data, api: f.api, admin: f.admin, join: f.join,
		bootstrapExpect: f.bootstrapExpect, gossipKeyFile: f.gossipKeyFile, insecure: f.insecure,
		adoptData: f.adoptData, tuning: f.tuning,
	}
	for _, addr := range []struct {
		flag, value string
		into        *string
	}{{"--api", f.api, &p.advertised}, {"--raft", f.raft, &p.raft}, {"--gossip", f.gossip, &p.gossip},
		{"--admin", f.admin, nil}} {
		reach, err := reachable(addr.value)
		if err != nil {
			fault("%s %q is refused: %v", addr.flag, addr.value, err)
		}
		if addr.into != nil {
			*addr.into = reach
		}
	}
	for _, j := range f.join {
		if _, _, err := net.SplitHostPort(j); err != nil {
			fault("--join %q is refused: host:port is wanted", j)
		}
	}
	var err error
	if p.attestationKeys, err = attestationKeys(f.attestationKeys); err != nil {
		fault("%v", err)
	}
	if len(faults) > 0 {
		return nil, usagef("%s", strings.Join(faults, "; "))
	}
	if open := f.exposed(files); len(open) > 0 {
		return nil, failf("%s is no loopback address: give --tls-cert, --tls-key, --tls-ca and --gossip-key-file, "+
			"or spell out --insecure", strings.Join(open, ", "))
	}
	return p, f.secure(p, files)
}

// exposed lists addresses beyond loopback that nothing protects.
func (f *serverFlags) exposed(files tlsFiles) []string {
	if f.insecure {
		return nil
	}
	var open []string
	for _, addr := range []struct {
		flag, value string
		safe        bool
	}{
		{"--api", f.api, files.complete()}, {"--raft", f.raft, files.complete()},
		{"--gossip", f.gossip, f.gossipKeyFile != ""}, {"--admin", f.admin, files.complete()},
	} {
		if !addr.safe && !loopback(addr.value) {
			open = append(open, addr.flag+" "+addr.value)
		}
	}
	return open
}

func (f *serverFlags) secure(p *nodePlan, files tlsFiles) error {
	if files == (tlsFiles{}) {
		return nil
	}
	if !files.complete() {
		return failf("--tls-cert, --tls-key and --tls-ca go together: a node shows a certificate and checks others'")
	}
	var err error
	if p.liveTLS, err = files.live(); err != nil {
		return err
	}
	p.clientTLS, p.nodeTLS = p.liveTLS.server(), p.liveTLS.mutual()
	return nil
}

// loopback reports whether an address is reached from this machine only.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// reachable returns the address that others use: the address itself, or for "all
// addresses" (0.0.0.0, ::, none) this machine's first one beyond loopback.
func reachable(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return "", fmt.Errorf("host:port is wanted")
	}
	ip := net.ParseIP(host)
	if host != "" && (ip == nil || !ip.IsUnspecified()) {
		return addr, nil
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("this machine's addresses: %w", err)
	}
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		if ok && n.IP.IsGlobalUnicast() && (n.IP.To4() != nil || ip != nil && ip.To4() == nil) {
			return net.JoinHostPort(n.IP.String(), port), nil
		}
	}
	return net.JoinHostPort("127.0.0.1", port), nil
}

// logFlags say how a node logs.
type logFlags struct {
	format, level string
	// least may be raised later.
	least slog.LevelVar
}

func (l *logFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.format, "log-format", "text", "`format` of the log on stderr: text, json")
	cmd.Flags().StringVar(&l.level, "log-level", "info", "least `level` logged: debug, info, warn, error")
}

func (l *logFlags) logger(to interface{ Write([]byte) (int, error) }) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return nil, usagef("%w", rota.Unknown("log-level", "--log-level", l.level, []string{"debug", "info", "warn", "error"}))
	}
	l.least.Set(level)
	options := &slog.HandlerOptions{Level: &l.least}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(to, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(to, options)), nil
	default:
		return nil, usagef("%w", rota.Unknown("log-format", "--log-format", l.format, []string{"text", "json"}))
	}
}
