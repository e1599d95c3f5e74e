package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota/internal/cli"
)

// Lists by their short names, reads that may be stale, filters by unknown queues, and a shell's completions, against a
// cluster.
func TestLists_live(t *testing.T) {
	t.Parallel()
	cluster := running(t, "dev", "--nodes", "1", "--data", t.TempDir())
	if !cluster.Scan() || !strings.HasPrefix(cluster.Text(), "ready addr=") {
		t.Fatalf("the cluster's first line is %q", cluster.Text())
	}
	addr := strings.TrimPrefix(cluster.Text(), "ready addr=")
	rotaTo := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		var out, talk bytes.Buffer
		if code := run(args, []string{"ROTA_ADDR=" + addr}, strings.NewReader(""), &out, &talk); code != want {
			t.Fatalf("%v: exit %d, want %d: %s", args, code, want, talk.String())
		}
		return out.String(), talk.String()
	}
	rotaTo(0, "queue", "set", "images")
	rotaTo(0, "tenant", "set", "acme", "--weight", "2")
	rotaTo(0, "job", "submit", "--type", "t", "--queue", "images", "--id", "photo-1", "--label", "team=search")

	for _, args := range [][]string{{"jobs"}, {"job", "ls"}, {"job", "list"}, {"jobs", "--queue", "images"}} {
		if out, _ := rotaTo(0, append(args, "-o", "name")...); out != "photo-1\n" {
			t.Errorf("%v prints %q", args, out)
		}
	}
	for _, args := range [][]string{{"queues"}, {"workers"}, {"tenants"}, {"workflows"}, {"worker", "ls"},
		{"workflow", "ls"}} {
		rotaTo(0, args...)
	}
	for _, args := range [][]string{{"job", "list", "--queue", "imagse"}, {"workflow", "list", "--queue", "imagse"}} {
		if out, talk := rotaTo(cli.ExitNotFound, args...); out != "" || !strings.Contains(talk, "imagse") {
			t.Errorf("%v: stdout %q, stderr %q", args, out, talk)
		}
	}
	rotaTo(0, "job", "list", "--queue", "default") // it exists, and is empty
	for where, want := range map[string]string{"label.team=search": "photo-1\n", "type=t -label.team=search": "",
		"priority<=9 age<1h state=QUEUED": "photo-1\n"} {
		if out, _ := rotaTo(0, "job", "list", "--filter", where, "-o", "name"); out != want {
			t.Errorf("--filter %q prints %q", where, out)
		}
	}
	if _, talk := rotaTo(cli.ExitUsage, "job", "list", "--filter", "queue=images tenan=x"); !strings.Contains(talk,
		`at 14: unknown term "tenan"`) {
		t.Errorf("an unknown filter is printed as %q", talk)
	}
	if out, _ := rotaTo(0, "job", "list", "--count"); !strings.Contains(out, "jobs      1\n") ||
		!strings.Contains(out, "complete  true\n") {
		t.Errorf("a count prints %q", out)
	}
	rotaTo(0, "job", "cancel", "photo-1")
	if out, _ := rotaTo(0, "job", "list", "--group", "fingerprint", "-o", "json"); !strings.Contains(out,
		`"job": "photo-1"`) || !strings.Contains(out, `"complete": true`) {
		t.Errorf("groups are printed as %q", out)
	}
	rotaTo(0, "job", "retry", "photo-1")

	running(t, "worker", "run", "--addr", addr, "--queues", "default", "--id", "w", "--slots", "1")
	rotaTo(0, "job", "submit", "--type", "t", "--id", "of-w", "--wait") // the worker exists
	for _, args := range [][]string{{"job", "list", "--queue", "images"}, {"job", "show", "photo-1"}, {"queue", "list"},
		{"worker", "list"},
		{"tenant", "list"}, {"workflow", "list"}, {"queue", "show", "images"}, {"tenant", "show", "acme"},
		{"mode", "get"},
		{"worker", "show", "w"}, {"job", "why", "photo-1"}} {
		fresh, none := rotaTo(0, append(args, "-o", "name")...)
		stale, talk := rotaTo(0, append(args, "-o", "name", "--stale")...)
		if fresh != stale || none != "" || !strings.Contains(talk, "stale: index ") {
			t.Errorf("%v: fresh %q, stale %q, stderr %q and %q", args, fresh, stale, none, talk)
		}
	}

	rotaTo(0, "key", "set", "account", "--concurrency", "3")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"job", "show", ""}, "photo-1"}, {[]string{"job", "list", "--queue", "im"}, "images"},
		{[]string{"queue", "pause", "im"}, "images"}, {[]string{"tenant", "show", ""}, "acme"},
		{[]string{"job", "list", "--state", ""}, "COMPLETED"}, {[]string{"mode", "set", ""}, "DRAINING"},
		{[]string{"queue", "set", "q", "--preset", ""}, "fluxforge"},
		{[]string{"queue", "set", "q", "--set", ""}, "queue_cap="},
		{[]string{"key", "delete", "acc"}, "account"}, {[]string{"key", "set", "k", "--sequence", ""}, "block"},
		{[]string{"events", "tail", "--kind", ""}, "jobDead"}, {[]string{"job", "list", "-o", ""}, "jsonl"},
	} {
		out, _ := rotaTo(0, append([]string{"__complete"}, c.args...)...)
		if !slices.Contains(strings.Split(out, "\n"), c.want) {
			t.Errorf("%v completes to %q, want %q", c.args, out, c.want)
		}
	}
	// Without a reachable cluster completion prints nothing.
	var out, talk bytes.Buffer
	run([]string{"__complete", "job", "show", ""}, []string{"ROTA_ADDR=127.0.0.1:1"}, strings.NewReader(""), &out,
		&talk)
	if strings.Contains(out.String(), "photo") || strings.Contains(talk.String(), "127.0.0.1") {
		t.Errorf("without a cluster: stdout %q, stderr %q", out.String(), talk.String())
	}
}
