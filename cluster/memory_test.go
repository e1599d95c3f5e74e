package cluster

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// TestLittleMemory: a node whose memory is less than four times the state's maximum reports this in its log at the
// start, and in its status while that is so; it is healthy all the same.
func TestLittleMemory(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for has, want := range map[uint64]bool{0: false, 4*gib - 1: true, 4 * gib: false} {
		t.Run(fmt.Sprint(has), func(t *testing.T) {
			t.Parallel()
			b, said := newBench(t), &lockedBuffer{}
			b.plan("n1", 1)
			c := b.addrs["n1"]
			c.memory, c.Log = func() uint64 { return has }, slog.New(slog.NewTextHandler(said, nil))
			b.addrs["n1"] = c
			b.startPlanned()
			n := b.loyal()
			says := func(when string, want bool) {
				t.Helper()
				s := n.clusterVerbs.ownStatus()
				if told := slices.ContainsFunc(s.Problems, func(p string) bool {
					return strings.Contains(p, "of memory")
				}); told != want || !s.Healthy {
					t.Errorf("%s: %+v", when, s)
				}
			}
			says("at the start", want)
			if logged := strings.Contains(said.String(), "of memory"); logged != want {
				t.Errorf("the log is:\n%s", said.String())
			}
			if _, err := n.SetCluster(within(t, ample), []rota.Setting{{Key: "state_bytes_max",
				Value: "512MiB"}}); err != nil {
				t.Fatal(err)
			}
			says("lowered", false)
			if _, err := n.SetCluster(within(t, ample), []rota.Setting{{Key: "state_bytes_max",
				Value: "2GiB"}}); err != nil {
				t.Fatal(err)
			}
			says("raised", has > 0)
		})
	}
}
