package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// issuer is an authority of these tests.
type issuer struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	last int64
}

func newIssuer(t *testing.T, name string) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{t: t, key: key, last: 1}
	i.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, i.cert, i.cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if i.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return i
}

// issue writes a fresh certificate, its key and the authority into a folder.
func (i *issuer) issue(dir string, life time.Duration) tlsFiles {
	i.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.last++
	template := &x509.Certificate{SerialNumber: big.NewInt(i.last), Subject: pkix.Name{CommonName: "node"}, DNSNames: []string{"node"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, i.cert, &key.PublicKey, i.key)
	if err != nil {
		i.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		i.t.Fatal(err)
	}
	f := tlsFiles{cert: filepath.Join(dir, "node.pem"), key: filepath.Join(dir, "node.key"), ca: filepath.Join(dir, "ca.pem")}
	for path, block := range map[string]*pem.Block{f.cert: {Type: "CERTIFICATE", Bytes: der},
		f.key: {Type: "PRIVATE KEY", Bytes: secret}, f.ca: {Type: "CERTIFICATE", Bytes: i.cert.Raw}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			i.t.Fatal(err)
		}
		// Clocks of file systems are coarse: each writing has a time of its own.
		at := time.Now().Add(time.Duration(i.last) * time.Second)
		if err := os.Chtimes(path, at, at); err != nil {
			i.t.Fatal(err)
		}
	}
	return f
}

// shakeHands returns what each side saw of the other.
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
		_, err = s.Write([]byte{1}) // shakes hands first
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

// TestLiveTLS is row 17 of the hostile list: certificates that are renewed or taken
// back under a running node.
func TestLiveTLS(t *testing.T) {
	t.Parallel()
	ours, dir := newIssuer(t, "ours"), t.TempDir()
	files := ours.issue(dir, time.Hour)
	live, err := files.live()
	if err != nil {
		t.Fatal(err)
	}
	server, node := live.server(), live.mutual()
	client, err := files.client()
	if err != nil {
		t.Fatal(err)
	}
	serials := func(want int64) {
		t.Helper()
		for what, configs := range map[string][2]*tls.Config{"a client": {server, client}, "a node": {node, node}} {
			seen, shown, err := shakeHands(t, configs[0], configs[1])
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if seen.SerialNumber.Int64() != want || shown == nil || shown.SerialNumber.Int64() != want {
				t.Errorf("%s: the server's is %v, the client's %v; %d is wanted", what, seen.SerialNumber, shown.SerialNumber, want)
			}
		}
	}
	serials(2)
	old, _ := live.now()
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{old.Leaf}}

	// Renewed: the same listeners and dialers show the new one, and the old one of a
	// peer still counts.
	ours.issue(dir, time.Hour)
	if changed, err := live.look(); !changed || err != nil {
		t.Fatal(changed, err)
	}
	serials(3)
	if err := live.verify(state); err != nil {
		t.Error(err)
	}

	// Half a renewal: what was read before still counts, and it is said once.
	var lines bytes.Buffer
	log := slog.New(slog.NewTextHandler(&lines, nil))
	key, err := os.ReadFile(files.key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.key, key[:len(key)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	live.tell(log, time.Now())
	live.tell(log, time.Now())
	if n := strings.Count(lines.String(), "cannot be read"); n != 1 {
		t.Errorf("said %d times: %s", n, lines.String())
	}
	serials(3)
	ours.issue(dir, time.Hour)
	live.tell(log, time.Now())
	live.tell(log, time.Now())
	for what, want := range map[string]int{"were read again": 1, "ends soon": 2} { // once under each certificate
		if n := strings.Count(lines.String(), what); n != want {
			t.Errorf("%q was said %d times: %s", what, n, lines.String())
		}
	}
	serials(4)

	// Another authority: no handshake with the old ones' certificates, and open
	// connections that stand on them are judged so.
	stranger := files
	theirs := newIssuer(t, "theirs")
	before, err := stranger.live()
	if err != nil {
		t.Fatal(err)
	}
	theirs.last = 10
	theirs.issue(dir, time.Hour)
	if changed, err := live.look(); !changed || err != nil {
		t.Fatal(changed, err)
	}
	if err := live.verify(state); err == nil || !strings.Contains(err.Error(), "ca.pem") {
		t.Errorf("a connection of the old authority: %v", err)
	}
	if _, _, err := shakeHands(t, node, before.mutual()); err == nil {
		t.Error("a node of the old authority is taken")
	}
}
