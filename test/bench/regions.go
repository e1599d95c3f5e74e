package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/rig"
)

// regionsPlan lists the measured round trips between regions, in milliseconds.
type regionsPlan struct{ rtts []int }

const (
	// regionsRate is the load under which latencies are measured, regionsKills how often a leader is killed for one
	// figure.
	regionsRate  = 200
	regionsKills = 3
	// regionsSettle bounds the wait for a leader at its place.
	regionsSettle = time.Minute
	metricLeads   = "rota_leaderships_total"
)

// layout is the placement of five nodes. Submitters and workers are in region 0.
type layout struct {
	name    string
	regions []int
}

var layouts = []layout{{"three regions, 2 + 2 + 1", []int{0, 0, 1, 1, 2}}, {"two regions, 3 + 2", []int{0, 0, 0, 1, 1}}}

// regionFigures are the figures of one layout at one round trip.
type regionFigures struct {
	layout string
	rtt    int
	// near is with the leader in the region of submitters and workers, far with it in another.
	near, far, closed result
	elections         float64
	failovers         []float64
}

// measureRegions runs five nodes in regions with delays between them.
func (p *plan) measureRegions(ctx context.Context) error {
	m, err := p.look(ctx)
	if err != nil {
		return err
	}
	var all []regionFigures
	for _, l := range layouts {
		found, err := p.measureLayout(ctx, l)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		all = append(all, found...)
	}
	return p.publish("bench-regions", m.markdown()+p.regionsTable(all))
}

func (p *plan) measureLayout(ctx context.Context, l layout) (all []regionFigures, err error) {
	w, err := newWAN(append([]int{0}, l.regions...))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	dir, err := os.MkdirTemp(p.dir, "rota-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &servers{dir: dir}
	for i := range l.regions {
		host := w.address(i + 1)
		at := func(port string) string { return net.JoinHostPort(host, port) }
		id := fmt.Sprintf("n%d", i+1)
		s.Nodes = append(s.Nodes, &rig.Node{ID: id, Dir: filepath.Join(dir, id), Log: filepath.Join(dir, id+".log"),
			Env:   rig.Inherited(),
			Addrs: rig.Addrs{API: at("6470"), Raft: at("6471"), Admin: at("6472"), Gossip: at("6473")},
			Line:  append(w.within(i+1), p.rota), Flags: []string{"--insecure"}})
	}
	s.Found()
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	c, err := s.Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for _, rtt := range p.regions.rtts {
		w.rtt.Store(int64(rtt) * int64(time.Millisecond))
		f, err := p.measureAt(ctx, s, c, l, rtt)
		if err != nil {
			return nil, fmt.Errorf("at %d ms: %w", rtt, err)
		}
		p.say("%s, %d ms: a submission p50 %.1f ms, far %.1f ms, %.0f jobs/s, failovers %.0f ms, %.0f elections, %d packets lost",
			l.name, rtt,
			f.near.SubmitP50Ms, f.far.SubmitP50Ms, f.closed.JobsPerS, f.failovers, f.elections, w.lost.Load())
		all = append(all, f)
	}
	return all, nil
}

// measureAt measures at one round trip.
func (p *plan) measureAt(ctx context.Context, s *servers, c *client.Client, l layout,
	rtt int) (f regionFigures, err error) {
	f = regionFigures{layout: l.name, rtt: rtt}
	far := s.Nodes[slices.Index(l.regions, 1)]
	warm := p.open(regionsRate / 10)
	for _, part := range []struct {
		leader *rig.Node
		args   []string
		to     *result
	}{{far, p.open(regionsRate), &f.far}, {s.Nodes[0], p.open(regionsRate), &f.near}, {s.Nodes[0], p.closed(),
		&f.closed}} {
		if err := lead(ctx, c, part.leader); err != nil {
			return f, err
		}
		if _, err := p.measure(ctx, p.rota, s, warm); err != nil {
			return f, err
		}
		before, err := s.sum(ctx, metricLeads)
		if err == nil {
			*part.to, err = p.measure(ctx, p.rota, s, part.args)
		}
		if err != nil {
			return f, err
		}
		after, err := s.sum(ctx, metricLeads)
		if err != nil {
			return f, err
		}
		f.elections += after - before
	}
	for range regionsKills {
		if err := lead(ctx, c, s.Nodes[0]); err != nil {
			return f, err
		}
		took, err := failover(ctx, c, s.Nodes[0])
		if err != nil {
			return f, err
		}
		f.failovers = append(f.failovers, float64(took.Milliseconds()))
	}
	slices.Sort(f.failovers)
	return f, nil
}

// lead moves leadership to a node, once all follow the log.
func lead(ctx context.Context, c *client.Client, to *rig.Node) error {
	ctx, cancel := context.WithTimeout(ctx, regionsSettle)
	defer cancel()
	return rig.Until(ctx, func() error {
		status, err := c.Status(ctx)
		if err != nil {
			return err
		}
		for _, n := range status.Nodes {
			if n.Voter && !n.Healthy || n.State == "UNREACHABLE" {
				return fmt.Errorf("%s is %s: %v", n.ID, n.State, n.Problems)
			}
		}
		if len(status.Nodes) < 5 || status.Leader == rota.NodeID(to.ID) {
			return nil
		}
		for _, n := range status.Nodes {
			if n.ID != status.Leader {
				continue
			}
			if err := handOver(ctx, n.API, rota.NodeID(to.ID)); err != nil {
				return err
			}
		}
		return fmt.Errorf("%s leads", status.Leader)
	})
}

// handOver makes the leader at an address hand over to a node.
func handOver(ctx context.Context, leader string, to rota.NodeID) error {
	at, err := client.Dial([]string{leader}, client.WithInsecure())
	if err != nil {
		return err
	}
	defer at.Close()
	_, err = at.TransferLeadership(ctx, to)
	return err
}

// failover kills a leader, and returns the time until a job is accepted that was submitted after that; then the node is
// started again.
func failover(ctx context.Context, c *client.Client, n *rig.Node) (took time.Duration, err error) {
	n.Kill()
	begin := time.Now()
	for {
		one, cancel := context.WithTimeout(ctx, regionsSettle)
		_, err = c.Submit(one, rota.NewJobSpec("failover", nil))
		cancel()
		if err == nil {
			break
		}
		if ctx.Err() != nil || time.Since(begin) > regionsSettle {
			return 0, err
		}
	}
	took = time.Since(begin)
	if err := n.Start(); err != nil {
		return 0, err
	}
	ready, cancel := context.WithTimeout(ctx, regionsSettle)
	defer cancel()
	return took, n.AwaitReady(ready)
}

func (p *plan) regionsTable(all []regionFigures) string {
	var b strings.Builder
	b.WriteString(
		"| five nodes in | round trip between regions | a submission, p50, p99 | with the leader elsewhere, p50 | submission to end, p50 | jobs/s | failover, median of " +
			strconv.Itoa(regionsKills) + " (least to most) |\n|---|---:|---:|---:|---:|---:|---:|\n")
	elections := 0.0
	for _, f := range all {
		fmt.Fprintf(&b, "| %s | %d ms | %.1f, %.1f ms | %.1f ms | %.1f ms | %.0f | %.0f (%.0f to %.0f) ms |\n",
			f.layout, f.rtt, f.near.SubmitP50Ms, f.near.SubmitP99Ms,
			f.far.SubmitP50Ms, f.near.E2EP50Ms, f.closed.JobsPerS, median(f.failovers), f.failovers[0],
			f.failovers[len(f.failovers)-1])
		elections += f.elections
	}
	fmt.Fprintf(&b, "\nSubmitters and workers stand in the first region, and so does the leader but where it is elsewhere. Latencies by `rota bench %s`, jobs/s by `rota bench %s`. "+
		"Leaders that changed unasked meanwhile: %.0f. None lost, none done twice.\n",
		strings.Join(p.open(regionsRate), " "), strings.Join(p.closed(), " "), elections)
	return b.String()
}
