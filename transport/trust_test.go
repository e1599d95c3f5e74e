package transport

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/identity"
	"github.com/rotasched/rota/internal/peer"
)

// certificates issues certificates for the cluster "prod".
type certificates struct {
	t  *testing.T
	ca *identity.Authority
}

func newCertificates(t *testing.T) certificates {
	t.Helper()
	ca, err := identity.NewAuthority("test", time.Now(), 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return certificates{t, ca}
}

func (c certificates) issue(r identity.Request) *tls.Certificate {
	c.t.Helper()
	r.Now, r.Life = time.Now(), time.Hour
	cert, key, err := c.ca.Issue(r)
	if err != nil {
		c.t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		c.t.Fatal(err)
	}
	return &pair
}

func (c certificates) node(id rota.NodeID) *tls.Certificate {
	c.t.Helper()
	uri, err := identity.NodeURI("prod", id)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.issue(identity.Request{URI: uri, Server: true, Hosts: []string{"n1.rota"}})
}

func (c certificates) client(role, name string) *tls.Certificate {
	c.t.Helper()
	uri, err := identity.ClientURI("prod", role, name)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.issue(identity.Request{URI: uri})
}

func (c certificates) nodeOf(state tls.ConnectionState) (rota.NodeID, error) {
	return identity.Node(state.PeerCertificates, c.ca.Pool(), "prod")
}

// serving makes a server present a certificate.
func (c certificates) serving(cert *tls.Certificate) func(*Options) {
	return func(o *Options) {
		o.TLS = identity.Serving(func() *tls.Certificate { return cert }, nil)
		o.NodeOf = c.nodeOf
	}
}

// dialling makes a node present a certificate; nil means none.
func (c certificates) dialling(cert *tls.Certificate) func(*PeerOptions) {
	if cert == nil {
		cert = &tls.Certificate{}
	}
	return func(o *PeerOptions) {
		o.TLS = identity.Between(func() *tls.Certificate { return cert }, nil)
		o.NodeOf = c.nodeOf
	}
}

// TestNodesShowCertificates checks a calling node against the id in its certificate, and a dialled node against the
// expected id. Once any certificate of the authority was enough, and a client's, or another node's, could read the
// state and remove members.
func TestNodesShowCertificates(t *testing.T) {
	bubble(t, func(t *testing.T) {
		certs := newCertificates(t)
		own, other := setup(t, certs.serving(certs.node("n1"))), setup(t, certs.serving(certs.node("n9")))
		for name, c := range map[string]struct {
			shown *tls.Certificate
			at    *bundle
			kind  rota.Kind
			want  string
		}{
			"its own":             {certs.node("n2"), own, rota.KindNone, ""},
			"none":                {nil, own, rota.KindDenied, "need a node certificate, got none"},
			"another node's":      {certs.node("n3"), own, rota.KindDenied, "its certificate is for node n3"},
			"the node's own":      {certs.node("n1"), own, rota.KindDenied, "its certificate is for node n1"},
			"a client's":          {certs.client("root", "n2"), own, rota.KindDenied, "spiffe://prod/node/"},
			"another authority's": {newCertificates(t).node("n2"), own, rota.KindDenied, "no authority of nodes"},
			"its own, at another one": {certs.node("n2"), other, rota.KindUnavailable,
				"called node n1, but node n9 answered"},
		} {
			dial := func(ctx context.Context) (net.Conn, error) { return c.at.lis.DialContext(ctx) }
			p := peersOf(t, dial, certs.dialling(c.shown))
			for call, do := range everyPeerCall(p, peer.NodeAddress{ID: "n1", API: "n1.rota:6470"}) {
				if _, err := do(bounded(t)); rota.KindOf(err) != c.kind || err != nil &&
					!strings.Contains(err.Error(), c.want) {
					t.Errorf("%s, %s: got %v", name, call, err)
				}
			}
		}
	})
}
