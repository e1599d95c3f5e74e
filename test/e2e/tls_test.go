package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority is a certificate authority of this test, made as a user makes one.
type authority struct{ dir, file string }

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.file = filepath.Join(a.dir, "ca.pem")
	(&nodes{t: t}).rota(t, "tls", "ca", "--dir", a.dir).want(t, 0)
	return a
}

// flags issues a certificate for a node and returns the flags that name it.
func (a *authority) flags(t *testing.T, name string) []string {
	t.Helper()
	(&nodes{t: t}).rota(t, "tls", "issue", "node", name, "--dir", a.dir).want(t, 0)
	base := filepath.Join(a.dir, name)
	return []string{"--tls-ca", a.file, "--tls-cert", base + ".pem", "--tls-key", base + ".key"}
}

// With certificates and a gossip key nodes, workers and commands communicate only encrypted, and a peer without a
// certificate of the authority gets no answer.
func TestTLSCluster(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	key := writeFile(t, filepath.Join(t.TempDir(), "gossip.key"), "0123456789abcdef0123456789abcdef")
	c := &nodes{t: t}
	for _, id := range []string{"n1", "n2", "n3"} {
		n := newNode(t, id, append(ours.flags(t, id), "--gossip-key-file", key, "--bootstrap-expect", "3")...)
		c.all = append(c.all, n)
	}
	for _, n := range c.all {
		n.Flags = append(n.Flags, c.joins(n)...)
		n.start(t)
	}
	c.awaitReady()
	ca := []string{"--tls-ca", ours.file}
	c.worker(t, append(ca, "--queues", "default")...)
	c.rota(t, append(ca, "job", "submit", "--type", "x", "--wait", "--timeout", "20s")...).want(t, 0)
	c.rota(t, append(ca, "operator", "verify")...).want(t, 0)
	c.rota(t, "cluster", "status", "--timeout", "2s").want(t, 7)
	c.rota(t, "cluster", "status", "--timeout", "2s", "--tls-ca", theirs.file).want(t, 7)
	c.rota(t, append(theirs.flags(t, "stranger"), "cluster", "status", "--timeout", "2s", "--tls-ca",
		ours.file)...).want(t, 7)

	// A node of another authority, and one without the gossip key, stay outside.
	for name, flags := range map[string][]string{
		"other-ca": append(theirs.flags(t, "other-ca"), "--gossip-key-file", key), "no-key": ours.flags(t, "no-key"),
	} {
		t.Run("a_node_with_"+name+"_is_no_member", func(t *testing.T) {
			n := newNode(t, name, append(flags, c.joins(nil)...)...)
			n.start(t)
			time.Sleep(3 * time.Second) // time for it to do harm
			if n.Running() && n.Ready() == nil {
				t.Errorf("%s serves", name)
			}
			r := c.rota(t, append(ca, "operator", "raft", "list-peers", "-o", "name")...).want(t, 0)
			if strings.Contains(r.stdout, name) {
				t.Errorf("the servers are %q", r.stdout)
			}
		})
	}
	c.all[2].awaitReady(t)
	c.all[0].Kill()
	c.rota(t, append(ca, "job", "submit", "--type", "x", "--wait", "--timeout", "30s")...).want(t, 0)
}
