package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rotasched/rota"
)

func (n *node) socket() string { return filepath.Join(n.Dir, "rota.sock") }

// TestFirstToken: of two first tokens that are requested at once, at two nodes, one is made; it has all rights, and a
// caller without one has none. A reset makes another.
func TestFirstToken(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.rota(t, "job", "submit", "--type", "x").want(t, 0)
	var both sync.WaitGroup
	inits := make([]*result, 2)
	for i := range inits {
		both.Go(func() { inits[i] = command(t, nil, "", "auth", "init", "--data", c.all[i].Dir) })
	}
	both.Wait()
	if inits[0].code != 0 {
		inits[0], inits[1] = inits[1], inits[0]
	}
	root := strings.TrimSpace(inits[0].want(t, 0).stdout)
	contains(t, "the second init", inits[1].want(t, 1).stderr, "auth reset")
	c.rota(t, "job", "list").want(t, 8)
	ask := func(token string, code int, args ...string) string {
		t.Helper()
		return command(t, []string{c.env(), "ROTA_TOKEN=" + token}, "", args...).want(t, code).stdout
	}
	ask(root, 0, "job", "list")
	reset := command(t, []string{"ROTA_TOKEN=" + root}, "", "auth", "reset", "--data", c.all[2].Dir, "--expires",
		"1h").want(t, 0)
	again := strings.TrimSpace(reset.stdout)
	contains(t, "the reset", reset.stderr, "earlier tokens that are valid: 1;")
	ask(again, 0, "operator", "verify")
	ask(again, 0, "auth", "token", "revoke", strings.Split(root, "_")[1])
	ask(root, 8, "job", "list")
	events := ask(again, 0, "events", "tail", "-o", "json")
	for _, want := range []string{`"authReset"`, `"local"`, `/socket"`} {
		if !strings.Contains(events, want) {
			t.Errorf("no %s in the events", want)
		}
	}
	if strings.Contains(events, root) || strings.Contains(events, again) {
		t.Error("an event has a token's secret")
	}
	command(t, nil, "", "auth", "init", "--data", t.TempDir()).want(t, 1)
}

// TestSocket: the account that a node runs as, and root, may create tokens, read status and save backups through the
// node's socket, regardless of the credentials that other callers need, and nothing else.
func TestSocket(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	n := c.all[0]
	is, err := os.Stat(n.socket())
	check(t, err)
	if is.Mode().Perm() != 0o600 || is.Mode().Type() != os.ModeSocket {
		t.Errorf("the socket is %v", is.Mode())
	}
	by := []string{"ROTA_ADDR=unix:" + n.socket(), "ROTA_TIMEOUT=20s"}
	ask := func(code int, args ...string) *result {
		t.Helper()
		return command(t, by, "", args...).want(t, code)
	}
	var who rota.Identity
	check(t, json.Unmarshal([]byte(ask(0, "auth", "whoami", "-o", "json").stdout), &who))
	if who.Principal != rota.Local || len(who.Grants) != 3 {
		t.Errorf("%+v", who)
	}
	ask(0, "cluster", "status")
	ask(0, "auth", "token", "list")
	ask(0, "operator", "snapshot", "save", filepath.Join(t.TempDir(), "backup"))
	ask(0, "operator", "snapshot", "save", "--stale", filepath.Join(t.TempDir(), "stale"))
	for _, args := range [][]string{{"job", "list"}, {"job", "submit", "--type", "x"}, {"queue", "list"},
		{"queue", "set", "q"}, {"operator", "verify"},
		{"mode", "set", "READ_ONLY", "--reason", "x"}, {"operator", "raft", "leave"}, {"events", "tail"}} {
		ask(8, args...)
	}
	n.Kill() // the socket stays
	n.start(t)
	c.awaitReady()
	ask(0, "auth", "whoami")
}
