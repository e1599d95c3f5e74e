package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tokenFile creates an access token and returns the flags that show it.
func (c *nodes) tokenFile(t *testing.T, args ...string) []string {
	t.Helper()
	made := c.rota(t, append([]string{"auth", "token", "create", "--expires", "1d"}, args...)...).want(t, 0)
	path := filepath.Join(t.TempDir(), "token")
	check(t, os.WriteFile(path, []byte(made.stdout), 0o600))
	return []string{"--token-file", path}
}

// TestTokenOfATenant: a token that is narrowed to one tenant submits, waits, lists and tails what
// is its own, and neither sees nor changes anything of another.
func TestTokenOfATenant(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.worker(t, "--queues", "default", "--exec", "cat")
	acme := c.tokenFile(t, "--role", "submitter", "--tenant", "acme")
	umbrella := c.tokenFile(t, "--role", "submitter", "--tenant", "umbrella")
	ask := func(code int, who []string, args ...string) string {
		t.Helper()
		r := c.rota(t, append(args, who...)...).want(t, code)
		if strings.Contains(r.stdout, "umbrella") || strings.Contains(strings.ReplaceAll(r.stderr, "umbrella-job", ""), "umbrella") {
			t.Errorf("rota %s: %s %s", strings.Join(args, " "), r.stdout, r.stderr)
		}
		return r.stdout
	}
	c.rota(t, append(umbrella, "job", "submit", "--tenant", "umbrella", "--id", "umbrella-job", "--type", "x", "--wait")...).want(t, 0)
	flow := writeFile(t, filepath.Join(t.TempDir(), "flow.yaml"), "id: acme-flow\ntenant: acme\nnodes:\n  - {id: a, type: x}\n")
	for _, args := range [][]string{
		{"job", "submit", "--tenant", "acme", "--id", "acme-job", "--type", "x", "--payload", "acme's", "--wait"}, {"job", "wait", "acme-job"},
		{"workflow", "submit", flow, "--wait"}, {"workflow", "show", "acme-flow"}, {"workflow", "list"}, {"job", "why", "acme-job"},
		{"queue", "show", "default"}, {"queue", "list"}, {"tenant", "list"}, {"auth", "whoami"},
	} {
		ask(0, acme, args...)
	}
	if text := ask(0, acme, "job", "show", "acme-job", "-o", "json"); !strings.Contains(text, `"payload": "acme's"`) {
		t.Errorf("its own job, with its payload: %s", text)
	}
	if text := ask(0, acme, "job", "list", "-o", "name"); !strings.Contains(text, "acme-job") {
		t.Errorf("its own jobs: %s", text)
	}
	if text := ask(0, acme, "events", "tail", "-o", "json"); !strings.Contains(text, `"acme-job"`) {
		t.Errorf("its own events: %s", text)
	}
	for _, args := range [][]string{
		{"job", "show", "umbrella-job"}, {"job", "wait", "umbrella-job"}, {"job", "why", "umbrella-job"}, {"tenant", "show", "umbrella-job"},
	} {
		ask(3, acme, args...)
	}
	for _, args := range [][]string{
		{"job", "submit", "--tenant", "other", "--type", "x"}, {"cluster", "status"}, {"worker", "list"}, {"auth", "token", "list"},
		{"queue", "set", "default"}, {"operator", "verify"},
	} {
		ask(8, acme, args...)
	}
}

// TestAnonymous_locksNobodyOut: a caller without a credential does not take their own rights by
// mistake while no token has all.
func TestAnonymous_locksNobodyOut(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	contains(t, "the refusal", c.rota(t, "auth", "anonymous", "none").want(t, 2).stderr, "--yes", "auth init")
	c.tokenFile(t, "--role", "root", "--tenant", "acme")
	c.rota(t, "auth", "anonymous", "reader").want(t, 2)
	c.rota(t, "job", "list").want(t, 0)
	root := c.tokenFile(t, "--role", "root")
	c.rota(t, "auth", "anonymous", "none").want(t, 0)
	c.rota(t, "job", "list").want(t, 8)
	c.rota(t, append(root, "auth", "anonymous", "root")...).want(t, 0)
	c.rota(t, "auth", "token", "revoke", strings.Split(c.rota(t, "auth", "token", "list", "-o", "name").want(t, 0).stdout, "\n")[0]).want(t, 0)
	c.rota(t, "auth", "anonymous", "none", "--yes").want(t, 0)
}
