package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A follower of events continues elsewhere when its node is killed: it has seen the events that every node returns
// afterwards, each event once, in the same order, to the byte. And the events match the deeds: the life of each job and
// each change, none left out.
func TestEventsAcrossKills(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.rota(t, "queue", "set", "load", "--preset", "standard").want(t, 0)
	follower := launch(t, "tail", []string{c.env()}, "events", "tail", "--follow", "-o", "jsonl", "--timeout", "5m")
	l := startLoad(t, c, "load", 2, 2, 10*time.Millisecond)
	l.flows(t, 50)
	d := startDeeds(t, c)
	d.doOnce()
	// Any node it follows dies in one of these.
	for _, n := range c.all {
		n.Kill()
		d.do()
		l.flows(t, 50)
		n.start(t)
		n.awaitReady(t)
	}
	l.flows(t, 50)
	l.settle(c)
	d.settle()
	c.verified(t, 3)

	want := c.all[0].tailed(t, c)
	for _, n := range c.all[1:] {
		if got := n.tailed(t, c); got != want {
			t.Fatalf("%s returns other events than %s: %s", n.ID, c.all[0].ID, firstDifference(got, want))
		}
	}
	eventually(t, 20*time.Second, "the follower has seen all", func() error {
		got := follower.Stdout.String()
		if len(got) < len(want) {
			return fmt.Errorf("%d of %d bytes", len(got), len(want))
		}
		if !strings.HasPrefix(got, want) {
			t.Fatalf("the follower saw other events: %s", firstDifference(got, want))
		}
		return nil
	})
	contains(t, "events", want, `"kind":"leadershipBegan"`)
	l.asDeeds(d)
	d.judge(t, want)
}

// tailed returns all events of one node.
func (n *node) tailed(t testing.TB, c *nodes) string {
	t.Helper()
	return c.rota(t, "events", "tail", "-o", "jsonl", "--addr", n.API).want(t, 0).stdout
}

// firstDifference returns the first line in which two texts differ.
func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d of %d and %d:\n%s\n%s", i+1, len(a), len(b), a[i], b[i])
		}
	}
	return fmt.Sprintf("got %d lines, want %d", len(a), len(b))
}
