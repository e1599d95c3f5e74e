package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// A burst that is faster than any clock that checks the disk is refused before the disk is full: the node lives, and
// finishes the jobs that it accepted.
func TestDisk_burst(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "120m")
	n := newNode(t, "n1", "--bootstrap-expect", "1", "--disk-low", "10", "--disk-critical", "5")
	n.Dir = filepath.Join(dir, "data")
	n.start(t)
	n.awaitReady(t)
	c := &nodes{t: t, all: []*node{n}}
	payload := make([]byte, 200<<10)
	_, _ = rand.Read(payload) // does not compress
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	cl := c.dial(t)
	var mu sync.Mutex
	var refused *rota.Error
	var taken []rota.JobID
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := 0; ctx.Err() == nil && n.Running(); i++ {
				spec := rota.NewJobSpec("bulk", payload)
				spec.ID = rota.JobID(fmt.Sprintf("bulk-%d-%04d", w, i))
				try, end := context.WithTimeout(ctx, 3*time.Second)
				_, err := cl.Submit(try, spec)
				end()
				mu.Lock()
				if e := rota.ErrorOf(err); err == nil {
					taken = append(taken, spec.ID)
				} else if e.Subject == "disk" {
					refused = e
				}
				stop := refused != nil
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d jobs accepted, refused: %v", len(taken), refused)
	if !n.Running() || refused == nil {
		t.Fatalf("runs %v, refused %v, %d accepted", n.Running(), refused, len(taken))
	}
	w := c.worker(t, "--id", "w", "--queues", "default", "--slots", "8")
	for _, id := range taken {
		c.awaitState(t, cl, string(id), 60*time.Second, rota.JobCompleted)
	}
	w.stop(t, 15*time.Second)
	if !n.Running() {
		t.Error("the node died of the load that it had accepted")
	}
}
