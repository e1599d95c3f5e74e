package main

import (
	"strings"
	"testing"

	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/lab"
)

func TestBenchFlags_check(t *testing.T) {
	t.Parallel()
	var good lab.BenchJobsFlags
	good.Workers, good.Queues, good.Queue = 2, 512, "q"
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	many := good
	if many.Queues = 513; many.Check() == nil {
		t.Error("more queues than the workers serve are not refused")
	}
	for _, line := range []string{"bench jobs --queue a!b", "bench fill --queue a!b", "bench jobs --tenants 0",
		"bench jobs --hold -1s",
		"bench fill --jobs 0", "bench fill --batch 1001", "bench fill --payload -1", "bench jobs --keys 1000001"} {
		if code, _, stderr := rotaLine(strings.Fields(line)...); code != cli.ExitUsage {
			t.Errorf("%s exits with %d: %s", line, code, stderr)
		}
	}
}

// A measurement's output format is the default in its help, which differs from that of other commands.
func TestBench_output(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{"bench jobs": "json", "bench workflow": "json", "job list": "table"} {
		if _, help, _ := rotaLine(append(strings.Fields(line), "--help")...); !strings.Contains(help,
			`yaml, name (default "`+want+`")`) {
			t.Errorf("%s: %s is not the default in its help:\n%s", line, want, help)
		}
		a := &cli.App{}
		root := rootCommand(a)
		cmd, _, err := root.Find(strings.Fields(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.ParseFlags(nil); err != nil {
			t.Fatal(err)
		}
		if err := a.Settle(cmd); err != nil || a.Output != want {
			t.Errorf("%s prints %q, %v, want %q", line, a.Output, err, want)
		}
	}
}
