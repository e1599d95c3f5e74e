package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/identity"
)

// issuer is a certificate authority for these tests.
type issuer struct {
	t    *testing.T
	ca   *identity.Authority
	last int
}

func newIssuer(t *testing.T, name string) *issuer {
	t.Helper()
	ca, err := identity.NewAuthority(name, time.Now(), 1000*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{t: t, ca: ca}
}

// testMember is the node of these tests.
var testMember = &cli.MemberTLS{Domain: "rota", Node: "n1"}

// issue writes a fresh certificate of testMember, its key and the authority into a folder.
func (i *issuer) issue(dir string, life time.Duration) cli.TLSFiles {
	i.t.Helper()
	return i.issueFor(dir, testMember.URI(), life)
}

func (i *issuer) issueFor(dir, uri string, life time.Duration) cli.TLSFiles {
	i.t.Helper()
	cert, key, err := i.ca.Issue(identity.Request{URI: uri, Server: true, Hosts: []string{"node"}, Now: time.Now(),
		Life: life})
	if err != nil {
		i.t.Fatal(err)
	}
	ca, _, err := i.ca.PEM()
	if err != nil {
		i.t.Fatal(err)
	}
	i.last++
	f := cli.TLSFiles{Cert: filepath.Join(dir, "node.pem"), Key: filepath.Join(dir, "node.key"),
		CA: filepath.Join(dir, "ca.pem")}
	for path, text := range map[string][]byte{f.Cert: cert, f.Key: key, f.CA: ca} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			i.t.Fatal(err)
		}
		// Clocks of file systems are coarse: each write gets its own time.
		at := time.Now().Add(time.Duration(i.last) * time.Second)
		if err := os.Chtimes(path, at, at); err != nil {
			i.t.Fatal(err)
		}
	}
	return f
}

// shakeHands returns the certificates that each side saw of the other.
func shakeHands(t *testing.T, server, client *tls.Config) (seen, shown *x509.Certificate, err error) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	type side struct {
		cert *x509.Certificate
		err  error
	}
	done := make(chan side, 1)
	go func() {
		raw, err := lis.Accept()
		if err != nil {
			done <- side{err: err}
			return
		}
		s := tls.Server(raw, server)
		defer s.Close()
		_ = s.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = s.Write([]byte{1}) // completes the handshake first
		got := side{err: err}
		if certs := s.ConnectionState().PeerCertificates; len(certs) > 0 {
			got.cert = certs[0]
		}
		done <- got
	}()
	client = client.Clone()
	client.ServerName = "node"
	raw, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := tls.Client(raw, client)
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, err = c.Read(make([]byte, 1))
	_ = c.Close()
	other := <-done
	if err = errors.Join(err, other.err); err != nil {
		return nil, nil, err
	}
	return c.ConnectionState().PeerCertificates[0], other.cert, nil
}

// TestLiveTLS is row 17 of the hostile list: certificates that are renewed or revoked under a running node.
func TestLiveTLS(t *testing.T) {
	t.Parallel()
	ours, dir := newIssuer(t, "ours"), t.TempDir()
	files := ours.issue(dir, time.Hour)
	live, err := files.Live(testMember)
	if err != nil {
		t.Fatal(err)
	}
	server, node := live.Serving(), live.Mutual()
	asking, err := files.Client()
	if err != nil {
		t.Fatal(err)
	}
	serials := func() {
		t.Helper()
		want := live.Current().Leaf.SerialNumber
		client, err := asking()
		if err != nil {
			t.Fatal(err)
		}
		for what, configs := range map[string][2]*tls.Config{"a client": {server, client}, "a node": {node, node}} {
			seen, shown, err := shakeHands(t, configs[0], configs[1])
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if seen.SerialNumber.Cmp(want) != 0 || shown == nil || shown.SerialNumber.Cmp(want) != 0 {
				t.Errorf("%s: got the server's %v, the client's %v; want %d", what, seen.SerialNumber,
					shown.SerialNumber, want)
			}
		}
	}
	serials()
	old := live.Current().Leaf
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{old}}

	// Renewed: the same listeners and dialers show the new certificate, and a peer's old one still counts.
	ours.issue(dir, time.Hour)
	if changed, err := live.Look(); !changed || err != nil {
		t.Fatal(changed, err)
	}
	serials()
	if live.Current().Leaf.Equal(old) {
		t.Error("the old certificate is still shown")
	}
	if id, err := live.NodeOf(state); id != "n1" || err != nil {
		t.Error(id, err)
	}

	// Another node's certificate in these files is not a renewal.
	ours.issueFor(dir, "spiffe://rota/node/n2", time.Hour)
	if changed, err := live.Look(); changed || err == nil ||
		!strings.Contains(err.Error(), "it is node n2's, this is node n1") {
		t.Error(changed, err)
	}
	ours.issue(dir, time.Hour)
	if changed, err := live.Look(); !changed || err != nil {
		t.Fatal(changed, err)
	}
	serials()

	// Half a renewal: the certificate read before still counts, and one line is logged.
	var lines bytes.Buffer
	log := slog.New(slog.NewTextHandler(&lines, nil))
	key, err := os.ReadFile(files.Key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.Key, key[:len(key)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	live.Tell(log, time.Now())
	live.Tell(log, time.Now())
	if n := strings.Count(lines.String(), "cannot be read"); n != 1 {
		t.Errorf("logged %d times: %s", n, lines.String())
	}
	serials()
	ours.issue(dir, time.Hour)
	live.Tell(log, time.Now())
	live.Tell(log, time.Now())
	for what, want := range map[string]int{"were read again": 1, "ends soon": 2} { // once under each certificate
		if n := strings.Count(lines.String(), what); n != want {
			t.Errorf("%q was logged %d times: %s", what, n, lines.String())
		}
	}
	serials()

	// Another authority: no handshake with the old ones' certificates, and open connections that depend on them are
	// judged so.
	stranger := files
	theirs := newIssuer(t, "theirs")
	before, err := stranger.Live(testMember)
	if err != nil {
		t.Fatal(err)
	}
	theirs.last = 20
	theirs.issue(dir, time.Hour)
	if changed, err := live.Look(); !changed || err != nil {
		t.Fatal(changed, err)
	}
	if _, err := live.NodeOf(state); err == nil || !strings.Contains(err.Error(), "no authority of nodes") {
		t.Errorf("a connection of the old authority: %v", err)
	}
	if _, _, err := shakeHands(t, node, before.Mutual()); err == nil {
		t.Error("a node of the old authority is accepted")
	}
}
