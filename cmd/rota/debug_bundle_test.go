package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotasched/rota/internal/cli/operator"
	"github.com/spf13/pflag"
)

// TestScrub removes secrets from texts, and leaves names and paths.
func TestScrub(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"token=rota_abcdefghijkl_SECRET and rota_abcdefghijkl_SECRET":                "token=… and rota_abcdefghijkl_…",
		"a\n-----BEGIN EC PRIVATE KEY-----\nSECRET\n-----END EC PRIVATE KEY-----\nb": "a\n(a private key)\nb",
		"cut: -----BEGIN PRIVATE KEY-----\nSECRET":                                   "cut: (a private key)",
		`{"password": "SE CRET", "job": "j"}`:                                        `{"password": …, "job": "j"}`,
		"gossip_key=SECRET node=n1":                                                  "gossip_key=… node=n1",
		"access key: SECRET":                                                         "access key: …",
		"postgres://u:SECRET@db/x s3://bucket/key":                                   "postgres://u:…@db/x s3://bucket/key",
		"Authorization: Bearer SECRET.x-y":                                           "Authorization: Bearer …",
		`"authorization":"Basic SECRET=="`:                                           `"authorization":"Basic …"`,
		"rota_oldest_pending_seconds{queue=\"default\"} 0 key=k idempotency":         "rota_oldest_pending_seconds{queue=\"default\"} 0 key=k idempotency",
		"tls-key-file: /etc/rota/node.key":                                           "tls-key-file: /etc/rota/node.key",
	} {
		if got := string(operator.Scrub([]byte(text))); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// TestSettingShown shows values of settings, those of settings that name files only if there is one.
func TestSettingShown(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.String("key-file", "", "`file` with a key")
	flags.String("node", "", "`id`")
	for _, c := range []struct{ flag, value, want string }{
		{"node", "n1", "n1"}, {"key-file", path, path + " (mode 0640)"},
		{"key-file", "SECRET", "(6 characters that name no file here)"}, {"none", "SECRET", "(no setting"},
	} {
		if got := operator.SettingShown(flags.Lookup(c.flag), c.value); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s is shown as %q", c.flag, c.value, got)
		}
	}
}

// TestTailOf reads from the beginning of a line: half of a secret would not be recognized.
func TestTailOf(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("first\nsecond\nthird\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int64]string{100: "first\nsecond\nthird\n", 15: "second\nthird\n", 8: "third\n"} {
		text, cut, err := operator.TailOf(path, most)
		if string(text) != want || cut != int64(19-len(want)) || err != nil {
			t.Errorf("%d: %q, %d cut, %v", most, text, cut, err)
		}
	}
	if _, _, err := operator.TailOf(filepath.Dir(path), 10); err == nil {
		t.Error("a directory is read")
	}
}
