package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/auth"
)

// TestToken: the presented token is that of --token-file, else ROTA_TOKEN's; a file that others may read is refused,
// and no refusal quotes a token.
func TestToken(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	text := access.CredentialOf([40]byte{5}).Secret()
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"ROTA_TOKEN=other"}
	for want, a := range map[string]*cli.App{text: {TokenFile: path, Environ: environ}, "other": {Environ: environ},
		"": {}} {
		got := ""
		token, err := a.Token()
		if err == nil && token != nil {
			got, err = token()
		}
		if err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}

	// The file is replaced while a client uses it.
	token, err := (&cli.App{TokenFile: path}).Token()
	if err != nil {
		t.Fatal(err)
	}
	next := access.CredentialOf([40]byte{6}).Secret()
	aside := filepath.Join(filepath.Dir(path), "aside")
	if err := errors.Join(os.WriteFile(aside, []byte(next), 0o600), os.Rename(aside, path)); err != nil {
		t.Fatal(err)
	}
	if got, err := token(); err != nil || got != next {
		t.Errorf("after it was replaced: %q, %v", got, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := runArgs("--token-file", path, "auth", "whoami")
	if code == 0 || !strings.Contains(stderr, "chmod 600") || strings.Contains(stderr, text[20:]) {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

// TestParseGrant parses grants in their written form.
func TestParseGrant(t *testing.T) {
	t.Parallel()
	for _, g := range []rota.Grant{{Right: rota.RightSubmit, Tenant: "acme*", Queue: "a:b"},
		{Right: rota.RightQueue, Tenant: "*", Queue: "q*"},
		{Right: rota.RightStatus, Tenant: "*", Queue: "*"}} {
		if got, err := auth.ParseGrant(g.String()); err != nil || got != g {
			t.Errorf("%s: %+v, %v", g, got, err)
		}
	}
	for _, text := range []string{"", "reed", "read q=x", "read acme"} {
		if g, err := auth.ParseGrant(text); err == nil {
			t.Errorf("%q is accepted as %s", text, g)
		}
	}
}
