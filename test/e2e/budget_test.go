package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// Submitted jobs use at most state_bytes_max of a node's memory (SPEC §4.14): 4,000 jobs of 256 KiB are a gigabyte.
func TestStateBytesMax(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.rota(t, "cluster", "set", "state_bytes_max=64MiB").want(t, 0)
	c.rota(t, "queue", "set", "default", "--set", "reject_threshold=0.9").want(t, 0)
	cl, err := client.Dial(c.addrs(), client.WithInsecure(), client.WithoutRestraint())
	check(t, err)
	t.Cleanup(func() { _ = cl.Close() })
	taken := map[int32]int{}
	for i := range 1000 {
		spec := rota.NewJobSpec("work", bytes.Repeat([]byte{byte(i)}, rota.MaxPayloadBytes))
		for _, spec.Priority = range []int32{rota.DefaultPriority, 0} {
			spec.ID = rota.JobID(fmt.Sprint("j", i, "-", spec.Priority))
			_, err := cl.Submit(context.Background(), spec)
			switch {
			case err == nil:
				taken[spec.Priority]++
			case !errors.Is(err, rota.ErrExhausted) || !strings.Contains(err.Error(), "state_bytes_max"):
				t.Fatalf("job %s: %v", spec.ID, err)
			}
			if err == nil {
				break // jobs refused otherwise are tried with priority 0
			}
		}
	}
	// Nine tenths of 64 MiB are 230 payloads and a part of one; 256 are all of it.
	if urgent := taken[0]; taken[rota.DefaultPriority] < 229 || taken[rota.DefaultPriority] > 231 ||
		urgent+taken[rota.DefaultPriority] != 255 {
		t.Errorf("accepted jobs by priority: got %v, want about 230, then 255 with those of priority 0", taken)
	}
	if kb := peak(t, c.all[0]); kb >= 512<<10 {
		t.Errorf("the node used %d MiB, want less than 512", kb>>10)
	}
}

// peak returns the peak memory of a node's process, in KiB.
func peak(t *testing.T, n *node) (kb int64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.Life().PID()))
	if err != nil {
		t.Skipf("no /proc here: %v", err)
	}
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kb); err == nil {
			return kb
		}
	}
	t.Fatalf("no VmHWM in %s", status)
	return 0
}
