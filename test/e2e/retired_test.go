package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// TestRetired: a process that an operator retired while it was away is refused when it comes back, by stream and by
// poll, until the worker is deleted; another process may have the id at once.
func TestRetired(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.rota(t, "queue", "set", "retired", "--preset", "standard").want(t, 0)
	secrets := map[string]string{}
	for _, whose := range []string{"one", "two"} {
		secrets[whose] = writeFile(t, filepath.Join(t.TempDir(), whose), strings.Repeat(whose, 8))
	}
	args := func(whose string, more ...string) []string {
		return append([]string{"--queues", "retired", "--id", "gpu-7", "--secret-file", secrets[whose], "--exec",
			"cat"}, more...)
	}
	worker := func(whose string) *process { return c.worker(t, args(whose)...) }
	refused := func() {
		t.Helper()
		again := c.rota(t, append([]string{"worker", "run"}, args("one")...)...).want(t, 1)
		contains(t, "the refusal", again.stderr, "worker gpu-7", "an operator retired it", "delete the worker")
		c.rota(t, append([]string{"worker", "run"}, args("one", "--takeover")...)...).want(t, 1)
	}

	w := worker("one")
	w.Kill()
	c.rota(t, "worker", "retire", "gpu-7").want(t, 0)
	refused()
	c.all[0].Kill() // its knowledge of this is on disk
	c.all[0].start(t)
	c.awaitReady()
	refused()
	p := &poller{t: t, id: "gpu-7", secret: strings.Repeat("one", 8)}
	if got := p.want(c.all[0], "/acquire", asking("retired", 1, 1, 100), 409); got.Kind != "STALE" ||
		got.Field != "session" {
		t.Fatalf("a poll: %+v", got)
	}
	c.rota(t, "job", "submit", "--queue", "retired", "--type", "x", "--id", "waits").want(t, 0)
	if job := c.job(t, "waits"); job.State != rota.JobQueued {
		t.Fatalf("%+v", job)
	}

	other := worker("two")
	c.rota(t, "job", "wait", "waits", "--timeout", "30s").want(t, 0)
	other.stop(t, 20*time.Second) // a goodbye is not a retirement
	worker("two").stop(t, 20*time.Second)
	c.rota(t, "worker", "delete", "gpu-7").want(t, 0)
	worker("one")
}
