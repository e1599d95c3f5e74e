package e2e

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// client issues a certificate for a client and returns the flags that show it.
func (a *authority) client(t *testing.T, role, name string) []string {
	t.Helper()
	(&nodes{t: t}).rota(t, "tls", "issue", "client", role+"/"+name, "--dir", a.dir).want(t, 0)
	base := filepath.Join(a.dir, role+"-"+name)
	return []string{"--tls-ca", a.file, "--tls-cert", base + ".pem", "--tls-key", base + ".key"}
}

// beyondLoopback starts a cluster of one node that listens on all addresses for clients.
func beyondLoopback(t *testing.T, flags ...string) (c *nodes, addr []string) {
	t.Helper()
	n := newNode(t, "n1", append(flags, "--bootstrap-expect", "1")...)
	n.takePorts(t)
	_, port, err := net.SplitHostPort(n.API)
	check(t, err)
	n.API = "0.0.0.0:" + port
	c = &nodes{t: t, all: []*node{n}}
	n.start(t)
	c.awaitReady()
	return c, []string{"--addr", "127.0.0.1:" + port, "--timeout", "20s"}
}

// TestStrangersAreNobody: under full TLS, beyond loopback, a client without a certificate has no rights; one with a
// certificate has those of its role; a node's certificate does not identify a client.
func TestStrangersAreNobody(t *testing.T) {
	t.Parallel()
	ours, clients := newAuthority(t), newAuthority(t)
	key := writeFile(t, filepath.Join(t.TempDir(), "gossip.key"), "0123456789abcdef0123456789abcdef")
	c, addr := beyondLoopback(t, append(ours.flags(t, "n1"), "--client-ca", clients.file, "--gossip-key-file", key)...)
	ask := func(who []string, args ...string) *result {
		t.Helper()
		return c.rota(t, append(append(args, addr...), who...)...)
	}
	as := func(role string) []string {
		return append(clients.client(t, role, "ann"), "--tls-ca", ours.file)
	}
	root, reader, worker := as("root"), as("reader"), as("worker")
	ask(root, "job", "submit", "--type", "x", "--id", "mine", "--payload", "secret").want(t, 0)
	calls := [][]string{
		{"cluster", "status"}, {"job", "list"}, {"job", "show", "mine"}, {"job", "cancel", "mine"},
		{"job", "submit", "--type", "x"},
		{"queue", "set", "q"}, {"tenant", "set", "t", "--weight", "2"},
		{"mode", "set", "READ_ONLY", "--reason", "mine"},
		{"operator", "snapshot", "save", filepath.Join(t.TempDir(), "s")}, {"operator", "raft", "leave"},
		{"operator", "verify"}, {"events", "tail"}, {"worker", "list"},
	}
	for who, flags := range map[string][]string{"nobody": {"--tls-ca", ours.file}, "a node": ours.flags(t, "n9"),
		"a role that is none": as("nosuch")} {
		for _, call := range calls {
			if r := ask(flags, call...); r.code != 8 {
				t.Errorf("%s: rota %s ends with %d: %s", who, strings.Join(call, " "), r.code, r.stderr)
			}
		}
	}
	for _, call := range calls {
		reads := call[1] == "list" || call[1] == "show" || call[1] == "status" || call[1] == "tail"
		if r := ask(reader, call...); (r.code == 0) != reads || !reads && r.code != 8 {
			t.Errorf("a reader: rota %s ends with %d: %s", strings.Join(call, " "), r.code, r.stderr)
		}
		if r := ask(worker, call...); r.code != 8 {
			t.Errorf("a worker: rota %s ends with %d: %s", strings.Join(call, " "), r.code, r.stderr)
		}
	}
	if r := ask(reader, "job", "show", "mine", "-o", "json").want(t, 0); strings.Contains(r.stdout, "secret") ||
		strings.Contains(r.stdout, "c2VjcmV0") {
		t.Errorf("a reader sees the payload: %s", r.stdout)
	}
	ask(root, "cluster", "status").want(t, 0)
	p := launch(t, "worker", nil, append(append([]string{"worker", "run", "--queues", "default"}, addr[:2]...),
		worker...)...)
	p.says(t, 20e9, "connected to")
	ask(root, "job", "wait", "mine").want(t, 0)
}
