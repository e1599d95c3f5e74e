package e2e

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// TestWorkerWithoutACluster: a worker whose cluster is gone for good ends at SIGTERM, with exit code 1 and the jobs
// whose outcomes it could not report.
func TestWorkerWithoutACluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	may := filepath.Join(t.TempDir(), "may-end")
	w := c.worker(t, "--queues", "default", "--slots", "4", "--exec", "while [ ! -e "+may+" ]; do sleep 0.1; done")
	cl := c.dial(t)
	for i := range 4 {
		c.rota(t, "job", "submit", "--type", "x", "--id", fmt.Sprintf("unreported-%d", i)).want(t, 0)
	}
	for i := range 4 {
		c.awaitState(t, cl, fmt.Sprintf("unreported-%d", i), 20*time.Second, rota.JobRunning)
	}
	for _, n := range c.all {
		n.Kill()
	}
	writeFile(t, may, "")
	w.Signal(syscall.SIGTERM)
	if code := w.end(t, 3*time.Minute); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	contains(t, "the worker's last words", w.Stderr.String(), "did not take the outcome of 4 jobs",
		"unreported-0, unreported-1, unreported-2, unreported-3")
}
