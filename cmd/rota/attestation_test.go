package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/auth"
	"github.com/rotasched/rota/internal/cli/job"
	"github.com/rotasched/rota/internal/cli/worker"
)

func testKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{5}, ed25519.SeedSize))
}

func pemOf(t *testing.T, kind string, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if kind == "PUBLIC KEY" {
		der, err = x509.MarshalPKIXPublicKey(key)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func TestParseSigningKey(t *testing.T) {
	t.Parallel()
	key := testKey()
	for name, text := range map[string]string{
		"seed": hex.EncodeToString(key.Seed()) + "\n", "PEM": "a note\n" + pemOf(t, "PRIVATE KEY", key),
	} {
		got, err := auth.ParseSigningKey([]byte(text))
		if err != nil || !got.Equal(key) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"nothing": "", "half a seed": strings.Repeat("ab", 16), "no hex": strings.Repeat("xy", 32),
		"a public key":        pemOf(t, "PUBLIC KEY", key.Public()),
		"a key of other kind": pemOf(t, "PRIVATE KEY", other),
		"PEM of nothing":      "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
	} {
		if _, err := auth.ParseSigningKey([]byte(text)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestParsePublicKeys(t *testing.T) {
	t.Parallel()
	public := testKey().Public().(ed25519.PublicKey)
	line := hex.EncodeToString(public)
	for name, text := range map[string]string{
		"lines": "# ours\n" + line + "\n\n  " + line + "\r\n",
		"PEM":   pemOf(t, "PUBLIC KEY", public) + pemOf(t, "PUBLIC KEY", public),
	} {
		keys, err := auth.ParsePublicKeys([]byte(text))
		if err != nil || len(keys) != 2 || !keys[1].Equal(public) {
			t.Errorf("%s: %v, %v", name, keys, err)
		}
	}
	for name, text := range map[string]string{
		"nothing": "# none\n", "a short line": line + "\n" + line[2:],
		"a private key": pemOf(t, "PRIVATE KEY", testKey()),
	} {
		if keys, err := auth.ParsePublicKeys([]byte(text)); err == nil {
			t.Errorf("%s is accepted as %v", name, keys)
		}
	}
}

func TestParseExpiry(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_000)
	for text, want := range map[string]int64{
		"1h": 1_700_003_600_000, "2031-01-31": 1_927_584_000_000, "2031-01-31T01:00:00+01:00": 1_927_584_000_000,
	} {
		if got, err := worker.ParseExpiry(text, now); err != nil || int64(got) != want {
			t.Errorf("%s: got %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0s", "-1h", "soon", "2001-01-31", "2031-02-31", "90000000h"} {
		if got, err := worker.ParseExpiry(text, now); cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

// rotaLine runs one command line; nothing listens where it would connect.
func rotaLine(args ...string) (code int, stdout, stderr string) {
	var out, talk bytes.Buffer
	code = run(append(args, "--addr", "127.0.0.1:1", "--timeout", "1s"), nil, strings.NewReader(""), &out, &talk)
	return code, out.String(), talk.String()
}

// A key is created, signs without any node, and its signature is valid.
func TestWorkerAttest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "key.pem")
	code, public, _ := rotaLine("worker", "attest", "--generate-key", path)
	info, err := os.Stat(path)
	if code != 0 || err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("exit %d, %v, %v", code, info, err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	code, _, _ = rotaLine("worker", "attest", "--generate-key", path)
	if after, _ := os.ReadFile(path); code != cli.ExitFailed || !bytes.Equal(before, after) {
		t.Errorf("an existing key: exit %d", code)
	}
	keys, err := auth.ParsePublicKeys([]byte(public))
	if err != nil {
		t.Fatal(err)
	}
	good := []string{"worker", "attest", "--key", path, "--worker", "w1", "--expires", "1h", "--cluster-id", "c1"}
	code, text, _ := rotaLine(good...)
	var a rota.Attestation
	if err := json.Unmarshal([]byte(text), &a); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s", code, err, text)
	}
	if err := a.Verify(keys, "c1", "w1", rota.Date(time.Now().UnixMilli())); err != nil {
		t.Error(err)
	}
	file := filepath.Join(dir, "w1.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := auth.ReadAttestation(file); err != nil || got.Worker != "w1" {
		t.Errorf("%+v, %v", got, err)
	}
	for i := 2; i < len(good); i += 2 {
		wrong := append([]string(nil), good...)
		if wrong[i+1] = ""; wrong[i] == "--cluster-id" {
			wrong[i+1] = "a b"
		}
		if code, out, _ := rotaLine(wrong...); code != cli.ExitUsage || out != "" {
			t.Errorf("%v: exit %d, %q", wrong, code, out)
		}
	}
	if code, _, _ := rotaLine(append(good, "--generate-key", filepath.Join(dir, "k2"))...); code != cli.ExitUsage {
		t.Errorf("--generate-key next to the others: exit code %d", code)
	}
}

func TestReadAttestation_refuses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.json")
	for name, text := range map[string]string{
		"nothing": "", "another field": `{"worker":"w1","admin":true}`, "two": `{"worker":"w1"}{"worker":"w2"}`,
		"a bad key": `{"key":"zz"}`, "a list": `[]`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if a, err := auth.ReadAttestation(path); cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	if _, err := auth.ReadAttestation(path + "-none"); cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("a missing file: %v", err)
	}
}

// A malformed command line makes no call, and exits as wrong usage.
func TestLimitsCommands_refuseBeforeAnyCall(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"mode", "set"}, {"mode", "set", "SLEEPING", "--reason", "x"}, {"mode", "set", "NORMAL"},
		{"mode", "set", "NORMAL", "--reason", " "}, {"mode", "set", "NORMAL", "--reason", strings.Repeat("x", 300)},
		{"tenant", "set", "t"}, {"tenant", "set", "t", "--tier", "GOLD"}, {"tenant", "set", "t", "--weight", "0"},
		{"tenant", "set", "t", "--weight", "NaN"}, {"tenant", "set", "t", "--rate-limit-rps", "-2"},
		{"tenant", "set", "t", "--penalty", "9h"}, {"tenant", "set", "a b", "--weight", "1"}, {"tenant", "show", ""},
		{"job", "reject", "j"}, {"job", "reject", "j", "--reason", "x", "--lease", "abc"},
		{"job", "reject", "a b", "--reason", "x"},
		{"job", "submit", "--type", "t", "--limit", "depth"}, {"job", "submit", "--type", "t", "--limit", "depth=NaN"},
		{"job", "submit", "--type", "t", "--limit", "d=1", "--limit", "d=2"},
		{"job", "submit", "--type", "t", "--expected-ms", "-1"},
		{"job", "submit", "--type", "t", "--units", "-1"}, {"job", "submit", "--type", "t", "--data-key", "two words"},
		{"job", "submit", "--file", "-", "--units", "1"},
		{"worker", "run", "--queues", "q", "--limit", "=1x"}, {"worker", "run", "--queues", "q", "--limit", "a=-1"},
		{"worker", "run", "--queues", "q", "--attestation", "/no/such/file"},
		{"worker", "suspend"},
		{"queue", "set", "q", "--preset", "fancy"}, {"queue", "set", "q", "--set", "min_health=NaN"},
	} {
		code, out, _ := rotaLine(args...)
		if code != cli.ExitUsage || out != "" {
			t.Errorf("rota %s: exit %d, stdout %q", strings.Join(args, " "), code, out)
		}
	}
}

// The sender reads the file more slowly, and prints one hint about it.
func TestFileSender_slowsDown(t *testing.T) {
	t.Parallel()
	hints := 0
	s := job.NewFileSender(nil, nil)
	s.Hint = func() { hints++ }
	s.SlowDown(t.Context(), []rota.Submitted{{}, {}})
	if hints != 0 {
		t.Error("a hint was printed without a cause")
	}
	began := time.Now()
	for range 2 {
		s.SlowDown(t.Context(), []rota.Submitted{{}, {Throttle: true}})
	}
	if took := time.Since(began); hints != 1 || took < 2*job.FilePause {
		t.Errorf("got %d hints, took %s", hints, took)
	}
}

// TestLiveAttestationKeys: replaced keys count without a restart; a half-written file leaves the previous keys in
// place, and is logged once.
func TestLiveAttestationKeys(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	write := func(keys ...string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.Join(keys, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one, two := strings.Repeat("01", 32), strings.Repeat("02", 32)
	l := &auth.LiveAttestationKeys{Files: []string{path}}
	var lines bytes.Buffer
	log := slog.New(slog.NewTextHandler(&lines, nil))
	want := func(keys ...string) {
		t.Helper()
		l.Tell(log)
		var got []string
		for _, k := range l.Now() {
			got = append(got, hex.EncodeToString(k))
		}
		if !slices.Equal(got, keys) {
			t.Errorf("valid keys: got %v, want %v", got, keys)
		}
	}
	write(one)
	if _, err := l.Look(); err != nil {
		t.Fatal(err)
	}
	want(one)
	write(one, two)
	want(one, two)
	write(two)
	want(two)
	write(two[:20])
	want(two)
	want(two)
	if n := strings.Count(lines.String(), "cannot read the changed"); n != 1 {
		t.Errorf("logged %d times: %s", n, lines.String())
	}
}
