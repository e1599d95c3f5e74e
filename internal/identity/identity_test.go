package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestNode checks that a certificate with one fault is refused, and that the error names the fault.
func TestNode(t *testing.T) {
	t.Parallel()
	ours, theirs := authority(t), authority(t)
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for name, c := range map[string]struct {
		change func(*x509.Certificate)
		by     *Authority
		want   string
	}{
		"sound":             {func(*x509.Certificate) {}, ours, ""},
		"another authority": {func(*x509.Certificate) {}, theirs, "no authority of nodes signed"},
		"expired":           {func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) }, ours, "expired"},
		"not valid yet": {func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }, ours,
			"not yet valid"}, "no usage as client": {func(c *x509.Certificate) { c.ExtKeyUsage = both[:1] }, ours,
			"lacks the extended key usage clientAuth"},
		"no usage as server": {func(c *x509.Certificate) { c.ExtKeyUsage = both[1:] }, ours,
			"lacks the extended key usage serverAuth"},
		"no usage": {func(c *x509.Certificate) { c.ExtKeyUsage = nil }, ours,
			"lacks the extended key usage serverAuth"},
		"any usage": {func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny} },
			ours, "lacks"}, "no URI": {uris(), ours, "has 0 URIs"},
		"two URIs":          {uris("spiffe://prod/node/n1", "spiffe://prod/node/n2"), ours, "has 2 URIs"},
		"another cluster":   {uris("spiffe://test/node/n1"), ours, "spiffe://prod/node/"},
		"a longer cluster":  {uris("spiffe://prod.test/node/n1"), ours, "spiffe://prod/node/"},
		"a client":          {uris("spiffe://prod/client/root/n1"), ours, "spiffe://prod/node/"},
		"no scheme of ours": {uris("https://prod/node/n1"), ours, "spiffe://prod/node/"},
		"no id":             {uris("spiffe://prod/node/"), ours, "a certificate cannot hold"},
		"two parts":         {uris("spiffe://prod/node/n1/n2"), ours, "want spiffe://prod/node/ID"},
		"a colon":           {uris("spiffe://prod/node/n:1"), ours, "a certificate cannot hold"},
		"up":                {uris("spiffe://prod/node/.."), ours, "a certificate cannot hold"},
		"escaped":           {uris("spiffe://prod/node/n%31"), ours, "a certificate cannot hold"},
		"a query":           {uris("spiffe://prod/node/n1?x"), ours, "a certificate cannot hold"},
		"a fragment":        {uris("spiffe://prod/node/n1#x"), ours, "a certificate cannot hold"},
		"a user":            {uris("spiffe://me@prod/node/n1"), ours, "spiffe://prod/node/"},
		"a port":            {uris("spiffe://prod:1/node/n1"), ours, "spiffe://prod/node/"},
		"a long id":         {uris("spiffe://prod/node/" + strings.Repeat("n", 65)), ours, "a certificate cannot hold"},
	} {
		template := &x509.Certificate{SerialNumber: big.NewInt(7), NotBefore: time.Now().Add(-time.Hour),
			NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: both}
		uris("spiffe://prod/node/n1")(template)
		c.change(template)
		id, err := Node([]*x509.Certificate{sign(t, c.by, template)}, ours.Pool(), "prod")
		if c.want == "" && (err != nil || id != "n1") || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %q, %v; want %q", name, id, err, c.want)
		}
	}
	if _, err := Node(nil, ours.Pool(), "prod"); err == nil || !strings.Contains(err.Error(), "got no certificate") {
		t.Errorf("none: %v", err)
	}
	sound := sign(t, ours, &x509.Certificate{SerialNumber: big.NewInt(7), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: both, URIs: []*url.URL{{Scheme: "spiffe", Host: "prod", Path: "/node/n1"}}})
	if _, err := Node([]*x509.Certificate{sound}, nil, "prod"); err == nil {
		t.Error("the system's authorities count although the nodes have none")
	}
}

func uris(texts ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.URIs = nil
		for _, text := range texts {
			uri, err := url.Parse(text)
			if err != nil {
				panic(err)
			}
			c.URIs = append(c.URIs, uri)
		}
	}
}

func authority(t *testing.T) *Authority {
	t.Helper()
	a, err := NewAuthority("test", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := a.PEM()
	if err != nil {
		t.Fatal(err)
	}
	if a, err = ReadAuthority(cert, key); err != nil { // as from a file
		t.Fatal(err)
	}
	return a
}

func sign(t *testing.T, by *Authority, template *x509.Certificate) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
