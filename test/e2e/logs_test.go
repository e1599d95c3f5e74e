package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// TestLogs: a command's output to stderr is followed through every node while it runs, read through every node
// afterwards, and kept for an attempt whose worker died and for a cluster whose nodes were all killed.
func TestLogs(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.rota(t, "queue", "set", "logs", "--set", "attempt_max=1").want(t, 0)
	gate := filepath.Join(t.TempDir(), "gate")
	w := c.worker(t, "--queues", "logs", "--id", "w", "--slots", "2", "--exec",
		`echo "begins $ROTA_JOB_ID" >&2; until [ -e `+gate+
			`.$ROTA_JOB_ID ]; do sleep 0.1; done; printf 'ends\033[2J' >&2`)
	for _, id := range []string{"good", "dies"} {
		c.rota(t, "job", "submit", "--queue", "logs", "--type", "t", "--id", id).want(t, 0)
	}
	at := func(n *node, args ...string) *result {
		return command(t, []string{"ROTA_ADDR=" + n.API}, "", append([]string{"job", "logs"}, args...)...)
	}
	shows := func(id, text string) {
		t.Helper()
		for _, n := range c.all {
			eventually(t, 20*time.Second, n.API+" shows the log of "+id, func() error {
				if r := at(n, id); r.code != 0 || r.stdout != text {
					return fmt.Errorf("exit code %d, %q, %s", r.code, r.stdout, r.stderr)
				}
				return nil
			})
		}
	}
	shows("good", "begins good\n")
	shows("dies", "begins dies\n")
	var followers []*process
	for _, n := range c.all {
		followers = append(followers, launch(t, "follower", []string{"ROTA_ADDR=" + n.API}, "job", "logs", "good",
			"-f"))
	}
	prints := func(f *process, text string) {
		t.Helper()
		eventually(t, 20*time.Second, "a follower prints "+text, func() error {
			if out := f.Stdout.String(); out != text {
				return fmt.Errorf("it prints %q", out)
			}
			return nil
		})
	}
	for _, f := range followers {
		prints(f, "begins good\n")
	}
	whole := "begins good\nends·[2J\n" // no terminal control sequence is printed
	writeFile(t, gate+".good", "")
	for _, f := range followers {
		if code := f.end(t, 30*time.Second); code != 0 {
			t.Errorf("a follower exits with %d", code)
		}
		prints(f, whole)
	}
	shows("good", whole)

	check(t, syscall.Kill(workerOf(t, w), syscall.SIGKILL))
	c.awaitState(t, c.dial(t), "dies", 90*time.Second, rota.JobDead)
	shows("dies", "begins dies\n")
	for _, n := range c.all {
		n.Kill()
	}
	for _, n := range c.all {
		n.start(t)
	}
	c.awaitReady()
	shows("good", whole)
	l := decode[rota.AttemptLog](t, c.rota(t, "job", "logs", "good", "--attempt", "0", "-o", "json"))
	if l.Open || l.Worker != "w" || l.Job != "good" || len(l.Parts) != 1 ||
		!strings.HasPrefix(string(l.Parts[0].Text), "begins") {
		t.Errorf("%+v", l)
	}
	c.rota(t, "job", "logs", "good", "--attempt", "1").want(t, 3)
	c.rota(t, "job", "logs", "nobody").want(t, 3)
	c.rota(t, "job", "logs", "good", "--attempt", "-2").want(t, 2)
}
