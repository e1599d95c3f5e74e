package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/serve"
	"github.com/rotasched/rota/internal/identity"
)

// TestOwnCertificate: a server does not start with a certificate that others would refuse.
func TestOwnCertificate(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t, "ours")
	for name, c := range map[string]struct {
		uri, node, cluster, domain string
		want                       string
	}{
		"its own":                {"spiffe://rota/node/n1", "n1", "rota", "", ""},
		"a domain of its own":    {"spiffe://elsewhere.org/node/n1", "n1", "Prod:1", "elsewhere.org", ""},
		"another node's":         {"spiffe://rota/node/n2", "n1", "rota", "", "it is node n2's"},
		"another cluster's":      {"spiffe://test/node/n1", "n1", "rota", "", "spiffe://rota/node/"},
		"a client's":             {"spiffe://rota/client/root/n1", "n1", "rota", "", "spiffe://rota/node/"},
		"a cluster that is none": {"spiffe://rota/node/n1", "n1", "Prod:1", "", "set --trust-domain"},
		"a node that is none":    {"spiffe://rota/node/n1", "n:1", "rota", "", "a certificate cannot hold"},
	} {
		t.Run(name, func(t *testing.T) {
			files := ca.issueFor(t.TempDir(), c.uri, time.Hour)
			f := testFlags(func(f *serve.ServerFlags) {
				f.Node, f.Cluster, f.TrustDomain, f.NodeCA, f.Insecure = c.node, c.cluster, c.domain, files.CA, false
				f.API = "10.0.0.1:6470"
			})
			files.CA = ""
			p, _, err := f.Plan(files)
			if c.want == "" && (err != nil || p.Node.NodeOf == nil) || c.want != "" &&
				(err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestEitherKindOfCertificate: one authority issues for nodes and clients, and neither certificate is accepted as the
// other kind; with separate authorities, neither is accepted by the other kind's.
func TestEitherKindOfCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nodes, clients := newIssuer(t, "nodes"), newIssuer(t, "clients")
	files := nodes.issue(dir, time.Hour)
	other, _, err := clients.ca.PEM()
	if err != nil {
		t.Fatal(err)
	}
	clientCA := filepath.Join(dir, "clients.pem")
	if err := os.WriteFile(clientCA, other, 0o600); err != nil {
		t.Fatal(err)
	}
	state := func(ca *issuer, uri string, server bool) tls.ConnectionState {
		cert, key, err := ca.ca.Issue(identity.Request{URI: uri, Server: server, Now: time.Now(), Life: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
	}
	for which, ca := range map[string]string{"one authority": files.CA, "two": clientCA, "none for clients": ""} {
		live, err := files.Live(&cli.MemberTLS{Domain: "rota", Node: "n1", ClientCA: ca})
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			state        tls.ConnectionState
			node, client bool
		}{
			"nobody":              {tls.ConnectionState{}, false, false},
			"a node":              {state(nodes, "spiffe://rota/node/n2", true), true, false},
			"a client as a node":  {state(clients, "spiffe://rota/node/n2", true), false, false},
			"a client":            {state(clients, "spiffe://rota/client/root/ann", false), false, ca == clientCA},
			"a client of nodes'":  {state(nodes, "spiffe://rota/client/root/ann", false), false, ca == files.CA},
			"a node for clients":  {state(nodes, "spiffe://rota/node/n2", false), false, false},
			"of another cluster":  {state(nodes, "spiffe://test/node/n2", true), false, false},
			"a client of another": {state(clients, "spiffe://test/client/root/ann", false), false, false},
		} {
			_, nodeErr := live.NodeOf(c.state)
			_, _, clientErr := live.ClientOf(c.state)
			anyone := live.Anyone(c.state)
			if (nodeErr == nil) != c.node || (clientErr == nil) != c.client ||
				(anyone == nil) != (c.node || c.client || name == "nobody") {
				t.Errorf("%s, %s: a node %v, a client %v, anyone %v", which, name, nodeErr, clientErr, anyone)
			}
		}
	}
}
