package virtual

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// TestWorkerWithoutACluster: all nodes die while handlers have results to report, and the worker is asked to stop,
// however long it may drain. It ends within 45 s and names the unreported results.
func TestWorkerWithoutACluster(t *testing.T) {
	play(t, nil, func(s *scene) {
		var begun sync.WaitGroup
		begun.Add(4)
		release := make(chan struct{})
		k := s.work("w", func(context.Context, *client.Job) (client.Result, error) {
			begun.Done()
			<-release
			return client.Result{}, nil
		}, client.WithDrainTimeout(10*365*24*time.Hour))
		for i := range 4 {
			s.submit(rota.JobID(fmt.Sprintf("job-%d", i)))
		}
		begun.Wait()
		for _, n := range s.servers {
			n.crash(true)
		}
		close(release)
		k.stop()
		asked := time.Now()
		var unreported *client.UnreportedError
		if err := <-k.ended; !errors.As(err, &unreported) || len(unreported.Jobs) != 4 {
			t.Errorf("Run returned %v", err)
		}
		if took := time.Since(asked); took > 45*time.Second {
			t.Errorf("the worker was gone after %s", took)
		}
	})
}
