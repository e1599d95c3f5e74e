package main

import (
	"strings"
	"testing"
)

func TestBenchFlags_check(t *testing.T) {
	t.Parallel()
	var good benchJobsFlags
	good.Workers, good.Queues, good.Queue = 2, 512, "q"
	if err := good.check(); err != nil {
		t.Error(err)
	}
	many := good
	if many.Queues = 513; many.check() == nil {
		t.Error("more queues than the workers serve are not refused")
	}
	for _, line := range []string{"bench jobs --queue a!b", "bench fill --queue a!b", "bench jobs --tenants 0", "bench jobs --hold -1s",
		"bench fill --jobs 0", "bench fill --batch 1001", "bench fill --payload -1", "bench jobs --keys 1000001"} {
		if code, _, stderr := rotaLine(strings.Fields(line)...); code != exitUsage {
			t.Errorf("%s exits with %d: %s", line, code, stderr)
		}
	}
}
