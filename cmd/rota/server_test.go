package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/serve"
	"github.com/rotasched/rota/internal/server"
)

func testFlags(change func(*serve.ServerFlags)) *serve.ServerFlags {
	f := &serve.ServerFlags{Node: "n1", Data: "/d", API: serve.DefaultAPI, Raft: serve.DefaultRaft,
		Admin: serve.DefaultAdmin, Gossip: serve.DefaultGossip, Cluster: "rota", BootstrapExpect: 1}
	if change != nil {
		change(f)
	}
	return f
}

func TestServerPlan(t *testing.T) {
	t.Parallel()
	none := cli.TLSFiles{}
	for _, c := range []struct {
		name   string
		change func(*serve.ServerFlags)
		code   int
		want   string
	}{
		{"loopback needs nothing", nil, 0, ""},
		{"localhost is loopback", func(f *serve.ServerFlags) { f.API = "localhost:1" }, 0, ""},
		{"no node, no data", func(f *serve.ServerFlags) { f.Node, f.Data = "", "" }, 2, "--data is missing"},
		{"bad id", func(f *serve.ServerFlags) { f.Node = "a b" }, 2, "--node"},
		{"all faults together", func(f *serve.ServerFlags) { f.API, f.Join = "x", []string{"y"} }, 2, "--join"},
		{"a name is not loopback", func(f *serve.ServerFlags) { f.Raft = "n1:6471" }, 1, "--raft n1:6471"},
		{"every address is not loopback", func(f *serve.ServerFlags) { f.Admin = ":6472" }, 1, "--admin"},
		{"insecure spelt out", func(f *serve.ServerFlags) { f.Raft, f.API, f.Insecure = "n1:1", "n1:2", true }, 0, ""},
		{"a gossip key does for gossip only", func(f *serve.ServerFlags) {
			f.Gossip, f.API, f.GossipKeyFile = "10.0.0.1:1", "10.0.0.1:2", "k"
		}, 1, "--api 10.0.0.1:2 is"},
	} {
		_, _, err := testFlags(c.change).Plan(none)
		if code := cli.ExitCode(err); code != c.code || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: exit %d, %v", c.name, code, err)
		}
	}
	if _, _, err := testFlags(nil).Plan(cli.TLSFiles{Cert: "c"}); err == nil {
		t.Error("a certificate alone is accepted")
	}
}

func TestDevPorts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var talk bytes.Buffer
	a := &cli.App{Stderr: &talk}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if _, err := (serve.DevCommands{App: a}).Ports(dir, &serve.DevFlags{Nodes: 3,
		API: taken.Addr().String()}); err == nil ||
		!strings.Contains(err.Error(), taken.Addr().String()) {
		t.Errorf("a taken --api: %v", err)
	}
	first, err := serve.DevCommands{App: a}.Ports(dir, &serve.DevFlags{Nodes: 3})
	if err != nil || len(first) != 3 {
		t.Fatalf("%+v, %v", first, err)
	}
	if first[0].API != serve.DefaultAPI && !strings.Contains(talk.String(), serve.DefaultAPI+" is taken") {
		t.Errorf("clients are served at %s without a message: %s", first[0].API, talk.String())
	}
	first[1].Raft = taken.Addr().String()
	if err := serve.RememberPorts(dir, first); err != nil {
		t.Fatal(err)
	}
	again, err := serve.DevCommands{App: a}.Ports(dir, &serve.DevFlags{Nodes: 3})
	if err != nil {
		t.Fatal(err)
	}
	for i := range first {
		for from, to := range map[string]string{first[i].API: again[i].API, first[i].Gossip: again[i].Gossip} {
			if from != to && !strings.Contains(talk.String(), from+" is taken") {
				t.Errorf("node %d moves from %s to %s without a message: %s", i, from, to, talk.String())
			}
		}
	}
	if again[1].Raft == first[1].Raft || !strings.Contains(talk.String(), first[1].Raft+" is taken") {
		t.Errorf("an address in use is kept: %+v, stderr %q", again[1], talk.String())
	}
	seen := map[string]bool{}
	for _, p := range again {
		for _, addr := range []string{p.API, p.Raft, p.Admin, p.Gossip} {
			if seen[addr] || !server.Loopback(addr) {
				t.Errorf("%s comes twice or is not loopback", addr)
			}
			seen[addr] = true
		}
	}
	if _, err := (serve.DevCommands{App: a}).Ports(dir, &serve.DevFlags{Nodes: 1}); err == nil {
		t.Error("another number of nodes is accepted")
	}
}

// TestFounding: on loopback, and with --insecure, a new cluster gives callers without a credential the role root;
// beyond loopback it requires certificates and a gossip key, and gives no role to such callers.
func TestFounding(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, args := range [][]string{{"tls", "ca", "--dir", dir}, {"tls", "issue", "node", "n1", "--dir", dir}} {
		if code := run(args, nil, strings.NewReader(""), io.Discard, io.Discard); code != 0 {
			t.Fatal(args, code)
		}
	}
	key := filepath.Join(dir, "gossip.key")
	if err := os.WriteFile(key, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	whole := cli.TLSFiles{CA: in("ca.pem"), Cert: in("n1.pem"), Key: in("n1.key")}
	const beyond, loop = "0.0.0.0:6470", "127.0.0.1:6470"
	for _, c := range []struct {
		api, raft, gossip, admin string
		tls, key, insecure       bool
		// The node starts; callers without a credential are root; the start warns.
		starts, open, exposed bool
	}{
		{loop, loop, loop, loop, false, false, false, true, true, false},
		{loop, loop, loop, loop, true, false, false, true, true, false},
		{loop, loop, loop, loop, true, true, false, true, true, false},
		{loop, loop, loop, loop, false, false, true, true, true, false},
		{beyond, loop, loop, loop, false, false, false, false, false, false},
		{beyond, loop, loop, loop, false, true, false, false, false, false},
		{beyond, loop, loop, loop, true, false, false, true, false, false},
		{beyond, beyond, beyond, loop, true, false, false, false, false, false},
		{beyond, beyond, beyond, loop, false, true, false, false, false, false},
		{beyond, beyond, beyond, loop, true, true, false, true, false, false},
		{beyond, beyond, beyond, beyond, true, true, false, true, false, false},
		{loop, beyond, loop, loop, false, false, false, false, false, false},
		{loop, loop, beyond, loop, true, false, false, false, false, false},
		{loop, loop, beyond, loop, false, true, false, true, true, false},
		{loop, loop, loop, beyond, false, false, false, false, false, false},
		{beyond, beyond, beyond, loop, false, false, true, true, true, true},
		{beyond, beyond, beyond, loop, true, true, true, true, true, true},
		{loop, loop, loop, beyond, false, false, true, true, true, true},
	} {
		f := &serve.ServerFlags{Node: "n1", Data: dir, API: c.api, Raft: c.raft, Gossip: c.gossip, Admin: c.admin,
			Cluster: serve.DefaultCluster, Insecure: c.insecure}
		files := cli.TLSFiles{}
		if c.tls {
			files = whole
		}
		if c.key {
			f.GossipKeyFile = key
		}
		p, _, err := f.Plan(files)
		if (err == nil) != c.starts {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if err == nil && (p.Node.Open != c.open || p.Node.Exposed != c.exposed) {
			t.Errorf("%+v: open %v, exposed %v", c, p.Node.Open, p.Node.Exposed)
		}
	}
}
