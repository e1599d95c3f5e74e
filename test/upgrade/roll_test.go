package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/test/rig"
)

// cluster is three nodes whose binaries change.
type cluster struct {
	t     testing.TB
	nodes rig.Nodes
	// auditors are the binaries that replay the log of each stopped node.
	auditors []string
}

func startCluster(t testing.TB, binary string, auditors ...string) *cluster {
	t.Helper()
	nodes, err := rig.NewNodes(3, t.TempDir(), binary)
	check(t, err)
	for _, n := range nodes {
		n.Flags = append(n.Flags, "--snapshot-entries", "64", "--snapshot-every", "1s")
	}
	t.Cleanup(nodes.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check(t, nodes.Start(ctx))
	return &cluster{t, nodes, auditors}
}

// answer is the output of `operator upgrade check -o json`.
type answer struct {
	Ready    bool
	Findings []struct{ Check, Result, Node, Text string }
	Nodes    []struct {
		ID     string
		Leader bool
		Done   bool
	}
}

func (c *cluster) ask(with, to string) (a answer, said string) {
	c.t.Helper()
	said, _ = command(c.t, with, "operator", "upgrade", "check", "--to", to, "-o", "json", "--addr",
		strings.Join(c.nodes.APIs(), ","))
	if at := strings.Index(said, "{"); at >= 0 {
		_ = json.NewDecoder(strings.NewReader(said[at:])).Decode(&a)
	}
	return a, said
}

// ready waits until the check of both binaries finds no blocker.
func (c *cluster) ready(to string) (a answer) {
	c.t.Helper()
	for _, with := range c.auditors {
		if err := rig.Within(time.Minute, func() error {
			var said string
			if a, said = c.ask(with, to); !a.Ready {
				return fmt.Errorf("%s", said)
			}
			return nil
		}); err != nil {
			c.t.Fatalf("the check by %s finds something in the way of %s: %v", filepath.Base(with), filepath.Base(to),
				err)
		}
	}
	return a
}

// roll moves nodes to a binary in the order that the check lists, until nodes of them have it.
func (c *cluster) roll(l *load, to string, nodes int) {
	c.t.Helper()
	for {
		order, done := c.ready(to).Nodes, 0
		var next *rig.Node
		for i, one := range order {
			if one.Done {
				done++
			} else if next == nil {
				if next = c.nodes.ByID(one.ID); one.Leader && i != len(order)-1 {
					c.t.Errorf("the leader %s comes before others: %v", one.ID, order)
				}
			}
		}
		if done == nodes {
			break
		}
		if next == nil {
			c.t.Fatalf("all are called done: %v", order)
		}
		begun := time.Now()
		c.replace(l, next, to)
		c.t.Logf("%s to %s: no submission was accepted for %s at most", next.ID, filepath.Base(to),
			l.Gap(begun).Round(time.Millisecond))
	}
	c.equal()
}

// replace stops a node for a while, audits its log, and starts it with a binary on the other one's files: node.json,
// the newest snapshot, the log after it and the entries that the other nodes have since added.
func (c *cluster) replace(l *load, n *rig.Node, to string) {
	c.t.Helper()
	check(c.t, n.Life().Stop(30*time.Second))
	l.flows(200)
	for _, binary := range c.auditors {
		audit(c.t, binary, n.Dir)
	}
	n.Line = []string{to}
	check(c.t, n.Start())
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	check(c.t, n.AwaitReady(ctx))
	l.flows(50)
}

// equal compares the states of all nodes with each binary, and has each read the nodes' files: their state, and the log
// after it.
func (c *cluster) equal() {
	c.t.Helper()
	backup := filepath.Join(c.t.TempDir(), "backup.rota")
	addrs := strings.Join(c.nodes.APIs(), ",")
	if said, code := command(c.t, c.auditors[0], "operator", "snapshot", "save", backup, "--addr", addrs); code != 0 {
		c.t.Errorf("operator snapshot save ends with %d: %s", code, said)
	}
	for _, binary := range c.auditors {
		verify(c.t, binary, addrs)
		if said, code := command(c.t, binary, "operator", "audit", "--backup", backup); code != 0 {
			c.t.Errorf("operator audit of a backup by %s ends with %d: %s", filepath.Base(binary), code, said)
		}
	}
}

// inForce waits until a version of the rules is in force.
func (c *cluster) inForce(version uint32) {
	c.t.Helper()
	cl, err := client.Dial(c.nodes.APIs(), client.WithInsecure())
	check(c.t, err)
	defer cl.Close()
	if err := rig.Within(time.Minute, func() error {
		s, err := cl.Status(c.t.Context())
		if err == nil && s.RulesVersion != version {
			err = fmt.Errorf("rules version %d is in force", s.RulesVersion)
		}
		return err
	}); err != nil {
		c.t.Fatalf("rules version %d: %v", version, err)
	}
}

// TestRoll moves a loaded cluster from the newest release to the present code: two nodes forward and back, then all of
// them. With the last node the rules are switched, and an old binary is refused by name from then on.
func TestRoll(t *testing.T) {
	if os.Getenv("ROTA_UPGRADE") == "" {
		t.Skip("a long test: make upgrade-test runs it")
	}
	_, old := previous(t)
	now := named(t, "rota-present", "-ldflags", "-X main.version=0.2.0")
	c := startCluster(t, old, old, now)
	l := startLoad(t, c.nodes)
	l.flows(100)
	c.roll(l, now, 2)
	c.asked(now)
	l.flows(100)
	c.inForce(1)
	c.roll(l, old, 3)
	c.roll(l, now, 2)
	c.inForce(1)
	for _, n := range c.nodes {
		log, err := os.ReadFile(n.Log)
		check(t, err)
		if read := strings.Count(string(log), "snapshot restored"); read < 1 && n.Line[0] == now {
			t.Errorf("%s has read no snapshot of another binary", n.ID)
		}
	}
	c.auditors = []string{now} // the old one cannot audit newer rules
	c.roll(l, now, 3)
	c.inForce(entry.RulesVersion)
	l.flows(200)
	l.settle()
	c.equal()
	for _, n := range c.nodes {
		check(t, n.Life().Stop(30*time.Second))
		audit(t, now, n.Dir)
		n.Line, n.Log = []string{old}, ""
		check(t, n.Start())
		if !n.Life().Wait(30 * time.Second) {
			t.Fatalf("%s runs with an old binary on newer rules", n.ID)
		}
		want := "node.json has format 2, this binary knows 1: start the version of rota that wrote it, or a newer one"
		if said := n.Life().LastWords(20); n.Life().ExitCode() == 0 || !strings.Contains(said, want) {
			t.Errorf("%s ends with %d: %s", n.ID, n.Life().ExitCode(), said)
		}
		n.Line = []string{now}
		check(t, n.Start())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		check(t, n.AwaitReady(ctx))
		cancel()
		moved, err := filepath.Glob(filepath.Join(n.Dir, "log", "*.wal"))
		if err != nil || len(moved) == 0 {
			t.Errorf("%s: the log has not moved out of raft.db: %v", n.ID, err)
		}
	}
	l = startLoad(t, c.nodes)
	l.flows(100)
	l.settle()
	c.equal()
}

// asked waits until a leader that knows newer rules has asked all voters, and found one that does not.
func (c *cluster) asked(binary string) {
	c.t.Helper()
	if err := rig.Within(time.Minute, func() error {
		for _, n := range c.nodes {
			if n.Line[0] != binary {
				continue
			}
			if log, err := os.ReadFile(n.Log); err != nil ||
				strings.Contains(string(log), "newer rules wait for a node") {
				return err
			}
		}
		at := slices.IndexFunc(c.nodes, func(n *rig.Node) bool { return n.Line[0] == binary })
		said, _ := command(c.t, binary, "operator", "raft", "transfer-leadership", "--to", c.nodes[at].ID, "--addr",
			c.nodes[at].API)
		return fmt.Errorf("no leader has asked: %s", said)
	}); err != nil {
		c.t.Error(err)
	}
}

// named builds the binary of this tree under a name.
func named(t testing.TB, name string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	built, err := rig.Build(dir, flags...)
	check(t, err)
	path := filepath.Join(dir, name)
	check(t, os.Rename(built, path))
	return path
}
