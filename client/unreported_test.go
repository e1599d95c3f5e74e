package client

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// TestDrain_givesUpWhatCannotBeReported stops a worker when the cluster is gone for good. The worker ends once its
// leases are over by its view, and names their jobs.
func TestDrain_givesUpWhatCannotBeReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var givenUp []string
		note := func(e HandlerEvent) {
			mu.Lock()
			defer mu.Unlock()
			givenUp = append(givenUp, e.Verb.String()+" "+string(e.Job))
		}
		b, stop := begin(t, 1, rota.WorkerSpec{Slots: 3}, WithDrainTimeout(10*365*24*time.Hour),
			WithObserver(Observer{GivenUp: note}))
		defer stop()
		done, running := b.run(leaseOf("done")), b.run(leaseOf("running"))
		b.s.end <- rota.Refusef(rota.KindUnavailable, "", "gone") // and no node welcomes it again
		done.done <- nil
		b.at(5 * time.Second)
		b.cancel()
		b.at(30*time.Second - time.Millisecond)
		alive(t, running)
		select {
		case err := <-b.result:
			t.Fatalf("Run returned %v while the leases may be its own", err)
		default:
		}
		b.at(30 * time.Second)
		lost(t, running, "no beat was answered")
		running.done <- errBoom
		err := within5s(t, b.result, "Run's end")
		var unreported *UnreportedError
		if !errors.As(err, &unreported) || !slices.Equal(unreported.Jobs, []rota.JobID{"done", "running"}) ||
			rota.KindOf(err) != rota.KindUnavailable || !strings.Contains(err.Error(),
			"2 jobs, which may run again: done, running") {
			t.Fatalf("Run returned %v", err)
		}
		slices.Sort(givenUp)
		if !slices.Equal(givenUp, []string{"COMPLETE done", "DECLINE running"}) {
			t.Fatalf("given up: %v", givenUp)
		}
	})
}

// TestDrain_reportsWhatItCan checks that a cluster that comes back while the worker stops gets every report, and that
// nothing is given up before there was time to try.
func TestDrain_reportsWhatItCan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := begin(t, 1, rota.WorkerSpec{}, WithDrainTimeout(time.Hour))
		defer stop()
		r := b.run(leaseOf("done"))
		b.s.end <- rota.Refusef(rota.KindUnavailable, "", "gone")
		r.done <- nil
		b.at(40 * time.Second) // its view is long over
		for len(b.node.streams) > 0 {
			<-b.node.streams // those that it tried meanwhile
		}
		b.cancel()
		synctest.Wait()
		b.reconnected()
		b.s.answer(b.s.expect(rota.VerbComplete), peer.LeaseAnswer{})
		if err := within5s(t, b.result, "Run's end"); err != nil {
			t.Fatalf("Run returned %v", err)
		}
	})
}
