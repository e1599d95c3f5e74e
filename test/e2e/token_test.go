package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// tokenFile creates an access token and returns the flags that show it.
func (c *nodes) tokenFile(t *testing.T, args ...string) []string {
	t.Helper()
	made := c.rota(t, append([]string{"auth", "token", "create", "--expires", "1d"}, args...)...).want(t, 0)
	path := filepath.Join(t.TempDir(), "token")
	check(t, os.WriteFile(path, []byte(made.stdout), 0o600))
	return []string{"--token-file", path}
}

// TestTokenOfATenant: a token restricted to one tenant submits, waits, lists and tails that tenant's objects, and
// neither sees nor changes anything of another.
func TestTokenOfATenant(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.worker(t, "--queues", "default", "--exec", "cat")
	acme := c.tokenFile(t, "--role", "submitter", "--tenant", "acme")
	umbrella := c.tokenFile(t, "--role", "submitter", "--tenant", "umbrella")
	ask := func(code int, who []string, args ...string) string {
		t.Helper()
		r := c.rota(t, append(args, who...)...).want(t, code)
		if strings.Contains(r.stdout, "umbrella") || strings.Contains(strings.ReplaceAll(r.stderr, "umbrella-job", ""),
			"umbrella") {
			t.Errorf("rota %s: %s %s", strings.Join(args, " "), r.stdout, r.stderr)
		}
		return r.stdout
	}
	c.rota(t, append(umbrella, "job", "submit", "--tenant", "umbrella", "--id", "umbrella-job", "--type", "x",
		"--wait")...).want(t, 0)
	flow := writeFile(t, filepath.Join(t.TempDir(), "flow.yaml"),
		"id: acme-flow\ntenant: acme\nnodes:\n  - {id: a, type: x}\n")
	for _, args := range [][]string{
		{"job", "submit", "--tenant", "acme", "--id", "acme-job", "--type", "x", "--payload", "acme's", "--wait"},
		{"job", "wait", "acme-job"},
		{"workflow", "submit", flow, "--wait"}, {"workflow", "show", "acme-flow"}, {"workflow", "list"},
		{"job", "why", "acme-job"},
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
		{"job", "show", "umbrella-job"}, {"job", "wait", "umbrella-job"}, {"job", "why", "umbrella-job"},
		{"tenant", "show", "umbrella-job"},
	} {
		ask(3, acme, args...)
	}
	for _, args := range [][]string{
		{"job", "submit", "--tenant", "other", "--type", "x"}, {"cluster", "status"}, {"worker", "list"},
		{"auth", "token", "list"}, {"queue", "set", "default"}, {"operator", "verify"},
	} {
		ask(8, acme, args...)
	}
}

// TestAnonymous_locksNobodyOut: a caller without a credential cannot remove their own rights by mistake while no token
// has all rights.
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
	c.rota(t, "auth", "token", "revoke", strings.Split(c.rota(t, "auth", "token", "list", "-o", "name").want(t,
		0).stdout, "\n")[0]).want(t, 0)
	c.rota(t, "auth", "anonymous", "none", "--yes").want(t, 0)
}

// TestTokenOfAWorker_replaced: a worker continues under the token that replaces its own, with its session and leases,
// so the old one is revoked without harm to running jobs.
func TestTokenOfAWorker_replaced(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	secret := func() (id, secret string) {
		secret = strings.TrimSpace(c.rota(t, "auth", "token", "create", "--expires", "1d", "--role", "worker").want(t,
			0).stdout)
		return strings.Split(secret, "_")[1], secret
	}
	old, shown := secret()
	var token atomic.Pointer[string]
	token.Store(&shown)
	mine, err := client.Dial(c.addrs(), client.WithInsecure(),
		client.WithTokenFrom(func() (string, error) { return *token.Load(), nil }))
	check(t, err)
	t.Cleanup(func() { _ = mine.Close() })
	connected := make(chan client.ConnectionEvent, 10)
	w, err := client.NewWorker(mine, rota.WorkerSpec{ID: "w", Queues: []rota.QueueName{rota.DefaultQueue}, Slots: 2},
		client.WithObserver(client.Observer{Connected: func(e client.ConnectionEvent) { connected <- e }}))
	check(t, err)
	release := make(chan struct{})
	w.Handle("long", func(ctx context.Context, _ *client.Job) (client.Result, error) {
		select {
		case <-ctx.Done():
			return client.Result{}, context.Cause(ctx)
		case <-release:
			return client.Result{}, nil
		}
	})
	w.Handle("short", func(context.Context, *client.Job) (client.Result, error) { return client.Result{}, nil })
	ctx, stop := context.WithCancel(context.Background())
	var life sync.WaitGroup
	life.Go(func() { _ = w.Run(ctx) })
	t.Cleanup(func() { stop(); life.Wait() })
	next := func() (e client.ConnectionEvent) {
		t.Helper()
		select {
		case e = <-connected:
		case <-time.After(time.Minute):
			t.Fatal("the worker does not connect")
		}
		return e
	}
	first := next()

	cl := c.dial(t)
	run := func(id, typ string) {
		spec := rota.NewJobSpec(rota.JobType(typ), nil)
		spec.ID = rota.JobID(id)
		_, err := cl.Submit(ctx, spec)
		check(t, err)
	}
	run("long", "long")
	c.awaitState(t, cl, "long", 20*time.Second, rota.JobRunning)
	_, shown = secret()
	token.Store(&shown)
	if again := next(); again.Session != first.Session {
		t.Errorf("session %d, before %d", again.Session, first.Session)
	}
	c.rota(t, "auth", "token", "revoke", old).want(t, 0)
	run("short", "short")
	c.awaitState(t, cl, "short", 20*time.Second, rota.JobCompleted)
	close(release)
	c.awaitState(t, cl, "long", 20*time.Second, rota.JobCompleted)
	j, err := cl.Job(ctx, "long")
	check(t, err)
	if len(j.Attempts) != 1 {
		t.Errorf("its attempts are %+v", j.Attempts)
	}
}
