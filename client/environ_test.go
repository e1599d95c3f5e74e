package client

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
)

// TestDialEnv: a program goes where the rota command of the same shell goes, and never in
// clear text where that encrypts.
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
			got, err := DialEnv()
			if c.want == "" {
				if rota.KindOf(err) != rota.KindInvalid {
					t.Fatalf("it is taken: %v", err)
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
