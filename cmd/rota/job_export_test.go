package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/foresight"
)

// rotaAt runs a command against a cluster.
func rotaAt(addr string, args ...string) (out, said string, code int) {
	var o, e bytes.Buffer
	code = run(append(args, "--addr", addr), nil, strings.NewReader(""), &o, &e)
	return o.String(), e.String(), code
}

// exportedLine is a line of an export.
type exportedLine struct {
	ID, Queue, Type, Tenant, State string
	Submit                         int64  `json:"submit_ms"`
	Start                          int64  `json:"start_ms"`
	Run                            *int64 `json:"run_ms"`
}

func exportedLines(t *testing.T, text string) (lines []exportedLine) {
	t.Helper()
	for line := range strings.Lines(text) {
		var l exportedLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		lines = append(lines, l)
	}
	return lines
}

// TestJobExport: a running cluster, through each of its nodes, the data directory of each stopped node, and a backup
// all export the same bytes; they are simulated, with as many jobs and their run times; and filters select the same
// jobs as in job list.
func TestJobExport(t *testing.T) {
	t.Parallel()
	dir, data := t.TempDir(), t.TempDir()
	addr, said, stop := threeNodes(t, data)
	if stop == nil {
		t.Fatal(said)
	}
	must := func(args ...string) string {
		t.Helper()
		out, said, code := rotaAt(addr, args...)
		if code != cli.ExitDone {
			t.Errorf("%v: exit code %d: %s", args, code, said)
		}
		return out
	}
	must("bench", "jobs", "--jobs", "60", "--rate", "200", "--hold", "30ms", "--workers", "2", "--slots", "2",
		"--tenants", "2", "--batch", "1")
	must("job", "submit", "--queue", "bench", "--type", "t", "--id", "waits", "--worker", "nobody")
	must("job", "submit", "--queue", "bench", "--type", "t", "--id", "cancelled", "--worker", "nobody")
	must("job", "cancel", "cancelled")
	want := must("job", "export")
	lines := exportedLines(t, want)
	if len(lines) != 60 || !slices.IsSortedFunc(lines,
		func(a, b exportedLine) int { return int(a.Submit - b.Submit) }) {
		t.Fatalf("%d jobs: %.2000s", len(lines), want)
	}
	until := int64(0)
	for _, l := range lines {
		if l.State != "COMPLETED" || l.Queue != "bench" || l.Run == nil || *l.Run < 30 || *l.Run > 60_000 ||
			l.Start < l.Submit || l.Submit < 1_700_000_000_000 {
			t.Errorf("%+v", l)
		}
		until = max(until, l.Submit+*l.Run)
	}
	for at := range strings.SplitSeq(addr, ",") {
		if got, said, code := rotaAt(at, "job", "export"); code != cli.ExitDone || got != want ||
			!strings.Contains(said, "60 jobs exported") || !strings.Contains(said, "1 jobs left out: they never ran") {
			t.Errorf("by %s: exit code %d, %d bytes and not %d: %s", at, code, len(got), len(want), said)
		}
	}
	half := exportedLines(t, must("job", "export", "--tenant", "bench-1"))
	if len(half) != 30 || slices.ContainsFunc(half, func(l exportedLine) bool { return l.Tenant != "bench-1" }) {
		t.Errorf("of one tenant: %d jobs", len(half))
	}
	if live := exportedLines(t, must("job", "export", "--live", "--filter", "type=t")); len(live) != 1 ||
		live[0].ID != "waits" || live[0].State != "QUEUED" || live[0].Run != nil {
		t.Errorf("live ones: %+v", live)
	}
	if got := must("job", "export", "--state", "CANCELLED"); got != "" {
		t.Errorf("a job that never ran: %s", got)
	}
	packed := filepath.Join(dir, "jobs.jsonl.gz")
	must("job", "export", "--to", packed)
	if _, said, code := rotaAt(addr, "job", "export", "--to", packed); code != cli.ExitUsage ||
		!strings.Contains(said, "is there already") {
		t.Errorf("over a file: exit code %d, %s", code, said)
	}
	if _, _, code := rotaAt(addr, "job", "export", "--queue", "none"); code != cli.ExitNotFound {
		t.Errorf("of an unknown queue: exit code %d", code)
	}
	if _, said, code := rotaAt(addr, "job", "export", "--filter", "colour=red"); code != cli.ExitUsage ||
		!strings.Contains(said, "colour") {
		t.Errorf("an invalid filter: exit code %d, %s", code, said)
	}
	backup := filepath.Join(dir, "backup.rota")
	must("operator", "snapshot", "save", backup)
	if err := stop(); err != nil || t.Failed() {
		t.Fatal(err)
	}
	checkPacked(t, packed, want)
	for _, from := range []string{filepath.Join(data, "n1"), filepath.Join(data, "n2"), filepath.Join(data, "n3"),
		backup} {
		if got, said, code := rotaAt(addr, "job", "export", "--from", from); code != cli.ExitDone || got != want {
			t.Errorf("from %s: exit code %d, %d bytes and not %d: %s", from, code, len(got), len(want), said)
		}
		if got, _, code := rotaAt(addr, "job", "export", "--from", from, "--live", "--state",
			"queued"); code != cli.ExitDone || len(exportedLines(t, got)) != 1 {
			t.Errorf("from %s, queued jobs: exit code %d, %s", from, code, got)
		}
	}
	out, said, code := rotaAt(addr, "simulate", packed, "--procs", "10000", "--policy", "p:ranking=fifo", "-o", "json")
	var got struct{ Policies []foresight.Result }
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != cli.ExitDone || got.Policies[0].Jobs != 60 {
		t.Fatalf("%v, exit code %d: %s%s", err, code, out, said)
	}
	if r := got.Policies[0]; r.WaitMaxS != 0 || fmt.Sprintf("%.3f", r.MakespanS) != fmt.Sprintf("%.3f",
		float64(until-lines[0].Submit)/1000) {
		t.Errorf("all at once they wait for %g s and take %g s, want %g", r.WaitMaxS, r.MakespanS,
			float64(until-lines[0].Submit)/1000)
	}
}

func checkPacked(t *testing.T, path, want string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || string(text) != want {
		t.Errorf("%s has %d bytes and not %d, %v", path, len(text), len(want), err)
	}
	if stat, err := file.Stat(); err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("%s is %s, %v", path, stat.Mode(), err)
	}
}

func TestJobExport_refuses(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	torn := filepath.Join(empty, "torn.rota")
	if err := os.WriteFile(torn, []byte("no backup"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"--state", "queued"}, "--state QUEUED selects jobs that have not ended: give --live too",
			cli.ExitUsage}, {[]string{"--state", "done"}, `unknown job state "DONE"`, cli.ExitUsage},
		{[]string{"--from", empty}, "holds no log and no snapshot", cli.ExitFailed},
		{[]string{"--from", filepath.Join(empty, "gone")}, "file not found", cli.ExitFailed},
		{[]string{"--from", torn}, "", cli.ExitFailed},
		{[]string{"more"}, "", cli.ExitUsage},
	} {
		var o, e bytes.Buffer
		if code := run(append([]string{"job", "export"}, test.args...), nil, strings.NewReader(""), &o,
			&e); o.Len() > 0 || code != test.code || !strings.Contains(e.String(), test.want) {
			t.Errorf("%v: exit code %d, want %d; stderr %q, want %q", test.args, code, test.code, e.String(), test.want)
		}
	}
}
