package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTLSCommands: what the commands make is what a server takes, and an authority in use
// is never written over.
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
		{[]string{"issue", "node", "n:1"}, "cannot stand in a certificate"},
		{[]string{"issue", "node", "n1", "--cluster", "Prod"}, "--trust-domain"},
		{[]string{"issue", "worker", "w1"}, "worker"},
	} {
		var said bytes.Buffer
		code := run(append(append([]string{"tls"}, c.args...), "--dir", dir), nil, strings.NewReader(""), io.Discard, &said)
		if c.want == "" && code != 0 || c.want != "" && (code == 0 || !strings.Contains(said.String(), c.want)) {
			t.Errorf("%v: exit code %d, %q is wanted in %s", c.args, code, c.want, said.String())
		}
	}
	files := tlsFiles{cert: filepath.Join(dir, "n1.pem"), key: filepath.Join(dir, "n1.key"), ca: filepath.Join(dir, "ca.pem")}
	if _, _, err := testFlags(func(f *serverFlags) { f.node, f.cluster = "n1", "rota" }).plan(files); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory that was made: %v, %v", info, err)
	}
	for _, key := range []string{"ca.key", "n1.key", "operator-ann.key"} {
		if info, err := os.Stat(filepath.Join(dir, key)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", key, info, err)
		}
	}
}
