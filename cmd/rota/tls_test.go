package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/serve"
)

// TestTLSCommands: a server accepts the files that the commands create, and an authority in use is never overwritten.
func TestTLSCommands(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "secrets")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"issue", "node", "n1"}, "rota tls ca"},
		{[]string{"ca"}, ""},
		{[]string{"ca"}, "exists"},
		{[]string{"issue", "node", "n1", "--host", "n1.example.org"}, ""},
		{[]string{"issue", "node", "n1"}, ""}, // renewed
		{[]string{"issue", "client", "operator/ann"}, ""},
		{[]string{"issue", "client", "ann"}, "ROLE/NAME"},
		{[]string{"issue", "node", "n:1"}, "a certificate cannot hold"},
		{[]string{"issue", "node", "n1", "--cluster", "Prod"}, "--trust-domain"},
		{[]string{"issue", "worker", "w1"}, "worker"},
	} {
		var said bytes.Buffer
		code := run(append(append([]string{"tls"}, c.args...), "--dir", dir), nil, strings.NewReader(""), io.Discard,
			&said)
		if c.want == "" && code != 0 || c.want != "" && (code == 0 || !strings.Contains(said.String(), c.want)) {
			t.Errorf("%v: exit code %d, want %q in %s", c.args, code, c.want, said.String())
		}
	}
	files := cli.TLSFiles{Cert: filepath.Join(dir, "n1.pem"), Key: filepath.Join(dir, "n1.key"),
		CA: filepath.Join(dir, "ca.pem")}
	if _, _, err := testFlags(func(f *serve.ServerFlags) { f.Node, f.Cluster = "n1", "rota" }).Plan(files); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the created directory: %v, %v", info, err)
	}
	for _, key := range []string{"ca.key", "n1.key", "operator-ann.key"} {
		if info, err := os.Stat(filepath.Join(dir, key)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", key, info, err)
		}
	}
}

// TestTLSIssue_renews: a renewed certificate is for the same cluster and hosts, unless others are named.
func TestTLSIssue_renews(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tls := func(args ...string) {
		t.Helper()
		var said bytes.Buffer
		if code := run(append(append([]string{"tls"}, args...), "--dir", dir), nil, strings.NewReader(""), io.Discard,
			&said); code != 0 {
			t.Fatalf("%v: exit code %d, %s", args, code, said.String())
		}
	}
	want := func(name, domain string, hosts ...string) {
		t.Helper()
		if of := serve.IssuedBefore(filepath.Join(dir, name+".pem")); of.Domain != domain ||
			!slices.Equal(of.Hosts, hosts) {
			t.Errorf("%s is for %s and %v, want %s and %v", name, of.Domain, of.Hosts, domain, hosts)
		}
	}
	tls("ca")
	tls("issue", "node", "n1", "--cluster", "prod", "--host", "n1.example.org,10.0.0.1")
	want("n1", "prod", "n1.example.org", "10.0.0.1")
	tls("issue", "node", "n1")
	want("n1", "prod", "n1.example.org", "10.0.0.1")
	tls("issue", "node", "n1", "--host", "10.0.0.9")
	want("n1", "prod", "10.0.0.9")
	tls("issue", "node", "n1", "--cluster", "rota")
	want("n1", "rota", "10.0.0.9")
	tls("issue", "client", "operator/ann", "--cluster", "prod")
	tls("issue", "client", "operator/ann")
	want("operator-ann", "prod")
	tls("issue", "node", "n2")
	want("n2", serve.DefaultCluster)
	if err := os.WriteFile(filepath.Join(dir, "n3.pem"), []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	tls("issue", "node", "n3")
	want("n3", serve.DefaultCluster)
}
