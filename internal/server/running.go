package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/rotasched/rota/console"
	"github.com/rotasched/rota/transport"
)

// goodbye bounds a node's shutdown: hand over, drain, close. Container runtimes kill after ten seconds by default.
const goodbye = 9 * time.Second

// running is one node of this process with its servers.
type running struct {
	plan   *Plan
	log    *slog.Logger
	node   Node
	late   *lateNode
	peers  *transport.Peers
	server *transport.Server
	admin  *adminServer
	denied *denied
	// broken receives the first error that ends the node, from any part.
	broken chan error
	// connections is the maximum of open connections of its API.
	connections int
}

// start starts one node and its servers. Health is answered first, calls once the state is loaded.
func start(ctx context.Context, plan *Plan, late *lateNode, open Opener, log *slog.Logger) (*running, error) {
	r := &running{plan: plan, log: log, late: late, broken: make(chan error, 8)}
	var err error
	if r.connections, err = connections(openFiles(), plan.Together); err != nil {
		return nil, err
	}
	lis, err := net.Listen("tcp", plan.Listen)
	if err != nil {
		return nil, listenError("--api", plan.Listen, err)
	}
	if plan.Admin != "" {
		if r.admin, err = startAdmin(plan, r.late, log); err != nil {
			_ = lis.Close()
			return nil, err
		}
	}
	if err := r.open(ctx, open, lis); err != nil {
		_ = lis.Close()
		_ = r.close()
		return nil, err
	}
	return r, nil
}

func (r *running) open(ctx context.Context, open Opener, lis net.Listener) error {
	r.peers = r.plan.peers(r.log, r.late.clusterID)
	n, err := open(ctx, r.plan.config(r.log, r.fail, r.late.starting), r.peers)
	if err != nil {
		return err
	}
	r.node = n
	// The socket exists before the node reports that it is ready.
	local, err := listenLocal(r.plan.Node.Data)
	if err != nil {
		r.log.Warn("the node has no socket of its own: rota auth init and reset cannot reach it", "path",
			SocketPath(r.plan.Node.Data), "err", err)
	}
	defer func() {
		if local != nil && r.server == nil {
			_ = local.Close()
		}
	}()
	r.late.set(n)
	if r.denied, err = openDenied(r.plan.Node.Data, r.log); err != nil {
		return err
	}
	calls := transport.NewCallMetrics()
	if r.admin != nil {
		r.admin.measure(append(Collectors(n), r.denied.calls, calls)...)
		if ends := r.plan.Node.CertificateEnds; ends != nil {
			r.admin.measure(CertificateExpiry(ends))
		}
	}
	var ui transport.Console
	if !r.plan.NoConsole {
		ui = console.Serve
	}
	r.server, err = transport.NewServer(transport.Options{
		Self: r.plan.Node.Node, Version: r.plan.Build.Version, Core: n, Node: n, TLS: r.plan.TLS,
		NodeOf: r.plan.Node.NodeOf, ClientOf: r.plan.ClientOf, Open: r.plan.Node.Open,
		Denied: r.denied.add, Metrics: calls, Logger: r.log, MaxConnections: r.connections,
		InflightBytes: r.plan.InflightBytes, Hosts: *r.plan.hosts(), Console: ui, Wall: world().Wall,
	})
	if err != nil {
		return err
	}
	r.serve("clients", func() error { return r.server.Serve(lis) })
	if local != nil {
		r.serve("the node's socket", func() error { return r.server.ServeLocal(local) })
	}
	return nil
}

func (r *running) serve(what string, serve func() error) {
	go func() {
		if err := serve(); err != nil {
			r.fail(fmt.Errorf("serve %s: %w", what, err))
		}
	}()
}

func (r *running) fail(err error) {
	select {
	case r.broken <- err:
	default:
	}
}

// wait returns when ctx ended or the node left (nil), or broke.
func (r *running) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.node.Left():
		return nil
	case err := <-r.broken:
		return err
	}
}

// shutdown stops the node in order: it hands leadership to another node, asks streams to move elsewhere, answers calls
// in flight and closes files.
func (r *running) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	if err := r.handOver(ctx); err != nil {
		r.log.Warn("leadership was not handed over", "err", err)
	}
	if err := r.server.Drain(ctx); err != nil {
		r.log.Warn("calls were cut off", "err", err)
	}
	return r.close()
}

// handOver passes leadership on while this node still answers: other nodes forward to it until they know the new
// leader.
func (r *running) handOver(ctx context.Context) error {
	peers, err := r.node.Peers(ctx)
	if err != nil {
		return nil // there is no leader, so it is not this node
	}
	leads, others := false, false
	for _, p := range peers {
		leads = leads || p.Leader && p.ID == r.plan.Node.Node
		others = others || p.Voter && p.ID != r.plan.Node.Node
	}
	if !leads || !others {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, goodbye/3)
	defer cancel()
	_, err = r.node.TransferLeadership(ctx, "")
	return err
}

// abandon closes a node that broke. Its disk may be the cause: it gets a little time, then the process ends without it.
func (r *running) abandon() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = r.close()
	}()
	select {
	case <-closed:
	case <-time.After(goodbye / 3):
	}
}

// close closes everything open, in the order of dependence.
func (r *running) close() error {
	var errs []error
	if r.server != nil {
		r.server.Close()
	}
	if r.denied != nil {
		errs = append(errs, r.denied.lines.Close())
	}
	if r.node != nil {
		ctx, cancel := context.WithTimeout(context.Background(), goodbye/3)
		errs = append(errs, r.node.Stop(ctx))
		cancel()
	}
	if r.peers != nil {
		errs = append(errs, r.peers.Close())
	}
	if r.admin != nil {
		errs = append(errs, r.admin.close())
	}
	return errors.Join(errs...)
}
