package main

import (
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// TestNumbersOutOfRange refuses them where the command line is read: exit code 2, with
// flag, value and range.
func TestNumbersOutOfRange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, flag, value, want string }{
		{"server --auto-degrade-usage 2", "--auto-degrade-usage", `"2"`, "0 to 1, is wanted"},
		{"server --auto-degrade-usage -0.1", "--auto-degrade-usage", `"-0.1"`, "0 to 1, is wanted"},
		{"server --auto-degrade-usage NaN", "--auto-degrade-usage", `"NaN"`, "0 to 1, is wanted"},
		{"server --disk-low 101", "--disk-low", `"101"`, "0 to 100, is wanted"},
		{"server --disk-critical -1", "--disk-critical", `"-1"`, "0 to 100, is wanted"},
		{"job list --limit 0", "--limit", "0", "1 or more is wanted"},
	} {
		code, _, stderr := rotaLine(strings.Fields(c.args)...)
		if code != exitUsage {
			t.Errorf("%s exits with %d: %s", c.args, code, stderr)
		}
		for _, part := range []string{c.flag, c.value, c.want} {
			if !strings.Contains(stderr, part) {
				t.Errorf("%s says %q: %s is missing", c.args, stderr, part)
			}
		}
	}
}

// TestRetiredWorkersAreAskedFor shows RETIRED workers only to those who ask.
func TestRetiredWorkersAreAskedFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		all    bool
		status string
		want   string
	}{
		{false, "", "ACTIVE DRAINING SUSPENDED JAILED UNREACHABLE"},
		{true, "", "ACTIVE DRAINING SUSPENDED JAILED RETIRED UNREACHABLE"},
		{false, "retired", "RETIRED"},
		{false, "JAILED", "JAILED"},
	} {
		keep, err := workersKept(c.all, c.status)
		if err != nil {
			t.Fatal(err)
		}
		var shown []string
		for s := rota.WorkerActive; s <= rota.WorkerUnreachable; s++ {
			if keep(s) {
				shown = append(shown, s.String())
			}
		}
		if got := strings.Join(shown, " "); got != c.want {
			t.Errorf("all %v, status %q: %s, wanted %s", c.all, c.status, got, c.want)
		}
	}
	if _, err := workersKept(false, "gone"); exitCode(err) != exitUsage {
		t.Errorf("an unknown status: %v", err)
	}
}
