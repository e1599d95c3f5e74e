package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/test/idp"
)

// TestLogin_badInput: a file that is not an identity token, or is open to others, is refused before it is sent, and not
// quoted; where the result cannot be written, no token is exchanged.
func TestLogin_badInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const jwt = "c2VjcmV0.c2VjcmV0.c2VjcmV0"
	good, long := file("good", jwt, 0o600), strings.Repeat("A", 17<<10)
	for name, c := range map[string]struct {
		args  []string
		stdin string
		says  string
	}{
		"no file named":   {nil, "", "--jwt-file is missing"},
		"open to others":  {[]string{"--jwt-file", file("open", jwt, 0o644)}, "", "chmod 600"},
		"not there":       {[]string{"--jwt-file", filepath.Join(dir, "none")}, "", "no such file"},
		"a directory":     {[]string{"--jwt-file", dir}, "", "--jwt-file"},
		"empty":           {[]string{"--jwt-file", file("empty", "\n", 0o600)}, "", "empty"},
		"empty input":     {[]string{"--jwt-file", "-"}, " \n", "empty"},
		"17 KiB":          {[]string{"--jwt-file", file("long", long, 0o600)}, "", "more than"},
		"17 KiB of input": {[]string{"--jwt-file", "-"}, long, "more than 16384 bytes"},
		"nowhere to write": {[]string{"--jwt-file", good, "--out", filepath.Join(dir, "none", "token")}, "",
			"--out"}, "out is a directory": {[]string{"--jwt-file", good, "--out", dir}, "", "not a file"},
		"an argument besides": {[]string{"--jwt-file", good, jwt}, "", "unknown command"},
	} {
		var out, errs bytes.Buffer
		// The token to show has no file: login prints no token.
		args := append([]string{"--addr", "127.0.0.1:1", "--token-file", filepath.Join(dir, "ended"), "auth", "login"},
			c.args...)
		code := run(args, nil, strings.NewReader(c.stdin), &out, &errs)
		if code != cli.ExitUsage || !strings.Contains(errs.String(), c.says) || out.Len() != 0 {
			t.Errorf("%s: exit %d, %q, %q", name, code, out.String(), errs.String())
		}
		if name != "an argument besides" && strings.Contains(errs.String(), "c2VjcmV0") ||
			strings.Contains(errs.String(), "AAAA") {
			t.Errorf("%s: the refusal quotes the token: %s", name, errs.String())
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.new")); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}

// TestIssuer_commands: issuers are set, listed and deleted; errors name the fault.
func TestIssuer_commands(t *testing.T) {
	t.Parallel()
	cluster := running(t, "dev", "--nodes", "1", "--data", t.TempDir())
	if !cluster.Scan() || !strings.HasPrefix(cluster.Text(), "ready addr=") {
		t.Fatalf("the cluster's first line is %q", cluster.Text())
	}
	addr := strings.TrimPrefix(cluster.Text(), "ready addr=")
	dir := t.TempDir()
	ask := func(want int, says string, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		code := run(append([]string{"--addr", addr, "auth"}, args...), nil, strings.NewReader(""), &out, &errs)
		if text := out.String() + errs.String(); code != want || !strings.Contains(text, says) {
			t.Errorf("%v: exit %d, %s", args, code, text)
		}
		return out.String()
	}
	p := idp.New()
	t.Cleanup(p.Close)
	ca := filepath.Join(dir, "ca.pem")
	long := filepath.Join(dir, "long.pem")
	if err := os.WriteFile(ca, []byte(p.CA), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(long, bytes.Repeat([]byte("A"), limits.MaxIssuerCA+1), 0o600); err != nil {
		t.Fatal(err)
	}
	const m = "sub=repo:acme/site:ref:refs/heads/main:submitter"
	for says, args := range map[string][]string{
		"set --audience and --map":           {p.URL, "--map", m},
		"--audience and --map":               {p.URL, "--audience", "rota"},
		"accepts 1 arg":                      {"--audience", "rota", "--map", m},
		"not of the form CLAIM=VALUE:ROLE":   {p.URL, "--audience", "rota", "--map", "sub"},
		`"sub=submitter" is not of the form`: {p.URL, "--audience", "rota", "--map", "sub=submitter"},
		"https://HOST":                       {"http://idp.example", "--audience", "rota", "--map", m},
		"use * only at the end":              {p.URL, "--audience", "rota", "--map", "sub=*:submitter"},
		"use PEM": {p.URL, "--audience", "rota", "--map", m, "--ca-file",
			filepath.Join(dir, "ca.none")},
		"maximum 16384": {p.URL, "--audience", "rota", "--map", m, "--ca-file", long},
		"read --ca-file": {p.URL, "--audience", "rota", "--map", m, "--ca-file",
			filepath.Join(dir, "none")},
	} {
		if says == "use PEM" {
			if err := os.WriteFile(args[len(args)-1], []byte("no PEM"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		ask(cli.ExitUsage, says, append([]string{"issuer", "set"}, args...)...)
	}
	ask(cli.ExitNotFound, "role", "issuer", "set", p.URL, "--audience", "rota", "--map", "sub=a:nobodys")
	ask(cli.ExitDone, m, "issuer", "set", p.URL, "--audience", "rota", "--map", m, "--ca-file", ca)
	ask(cli.ExitDone, p.URL+"\n", "issuer", "list", "-o", "name")
	ask(cli.ExitDone, `"value": "repo:acme/site:ref:refs/heads/main"`, "issuer", "list", "-o", "json")
	ask(cli.ExitDone, "is deleted", "issuer", "delete", p.URL)
	ask(cli.ExitNotFound, "not set", "issuer", "delete", p.URL)
	if left := ask(cli.ExitDone, "", "issuer", "list", "-o", "name"); left != "" {
		t.Errorf("%q are left", left)
	}
}
