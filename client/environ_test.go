package client

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
)

// TestDialEnv checks that a program connects where the rota command of the same shell does, and never in clear text if
// the command uses TLS.
func TestDialEnv(t *testing.T) {
	text := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(text, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, addr, ca, cert, token string
		want                        string
	}{
		{name: "default", want: DefaultAddress},
		{name: "several", addr: "a:1, b:2,a:1", want: "a:1, b:2"},
		{name: "no_address", addr: "here"},
		{name: "no_such_authority", addr: "a:1", ca: text + ".not"},
		{name: "no_authority", addr: "a:1", ca: text},
		{name: "no_key", addr: "a:1", cert: text},
		{name: "token", token: access.CredentialOf([40]byte{1}).Secret(), want: DefaultAddress},
		{name: "token_in_clear_text", addr: "a:1", token: access.CredentialOf([40]byte{1}).Secret()},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("ROTA_ADDR", c.addr)
			t.Setenv("ROTA_TLS_CA", c.ca)
			t.Setenv("ROTA_TLS_CERT", c.cert)
			t.Setenv("ROTA_TLS_KEY", "")
			t.Setenv("ROTA_TOKEN", c.token)
			t.Setenv("ROTA_TOKEN_FILE", "")
			t.Setenv("ROTA_TIMEOUT", "")
			got, err := DialEnv()
			if c.want == "" {
				if rota.KindOf(err) != rota.KindInvalid {
					t.Fatalf("it is accepted: %v", err)
				}
				return
			}
			if err != nil || addressesOf(got) != c.want {
				t.Fatalf("%v, %v", got, err)
			}
			_ = got.Close()
		})
	}
}

// TestDialEnv_table runs the cases that the command line and all client libraries share.
func TestDialEnv_table(t *testing.T) {
	text, err := os.ReadFile("../testdata/environment/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name, File, Token, Refused string
		Env                        map[string]string
		Mode                       os.FileMode
		Addresses                  []string
		TimeoutMs                  int64 `json:"timeout_ms"`
	}
	if err := json.Unmarshal(text, &cases); err != nil || len(cases) < 10 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{"ADDR", "TLS_CA", "TLS_CERT", "TLS_KEY", "TOKEN", "TOKEN_FILE", "TIMEOUT"} {
				t.Setenv("ROTA_"+name, strings.ReplaceAll(c.Env["ROTA_"+name], "$DIR", dir))
			}
			if c.File != "" {
				if err := os.WriteFile(filepath.Join(dir, "token"), []byte(c.File), c.Mode); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(filepath.Join(dir, "token"), c.Mode); err != nil {
					t.Fatal(err)
				}
			}
			got, err := DialEnv()
			if c.Refused != "" {
				if e := rota.ErrorOf(err); err == nil || e.Kind != rota.KindInvalid || e.Subject != c.Refused {
					t.Fatalf("DialEnv returned %v, want INVALID of %s", err, c.Refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer got.Close()
			timeout := time.Duration(c.TimeoutMs) * time.Millisecond
			if c.Env["ROTA_TIMEOUT"] == "" {
				timeout = 0 // a call without a deadline continues
			}
			if addressesOf(got) != strings.Join(c.Addresses, ", ") || got.patience != timeout {
				t.Errorf("nodes %s, timeout %v", addressesOf(got), got.patience)
			}
			token := ""
			if shown := got.nodes[0].shows; shown != nil {
				token = shown.last.Load().token
			}
			if token != c.Token {
				t.Errorf("the token is %q, want %q", token, c.Token)
			}
		})
	}
}
