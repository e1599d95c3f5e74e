package virtual

import (
	"context"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// TestTakeover checks SPEC §8.5 with two processes of the client library: the one that is taken over confirms each
// lease once its handler has returned, however long after the takeover. So the job runs at the new one without the wait
// for silence, and never at both at once.
func TestTakeover(t *testing.T) {
	for name, c := range map[string]struct {
		node  int // of the new process; the old one's is 0
		stops time.Duration
		well  bool // the handler completes its job at the moment of the takeover
	}{
		"at the same node":               {node: 0},
		"at another node":                {node: 1},
		"a handler that takes its time":  {node: 1, stops: 15 * time.Second},
		"a completion on its way":        {node: 1, well: true},
		"a completion, at the same node": {node: 0, well: true},
		"its time, at the same node":     {node: 0, stops: 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, nil, func(s *scene) {
				begun := make(chan struct{})
				old := s.workAt("w", s.servers[:1], func(ctx context.Context, _ *client.Job) (client.Result, error) {
					close(begun)
					<-ctx.Done()
					time.Sleep(c.stops)
					if c.well {
						return client.Result{Output: []byte("old")}, nil
					}
					return client.Result{}, context.Cause(ctx)
				}, client.WithSecret([]byte("secret of the old process")))
				s.submit("job")
				<-begun
				fresh := s.workAt("w", s.servers[c.node:c.node+1],
					func(context.Context, *client.Job) (client.Result, error) {
						return client.Result{Output: []byte("new")}, nil
					}, client.WithSecret([]byte("secret of the new process")), client.WithTakeover())
				if j := s.over("job"); j.State != rota.JobCompleted || string(j.Output) != "new" || j.Attempt != 0 {
					t.Errorf("job %+v", j)
				}
				if err := <-old.ended; rota.KindOf(err) != rota.KindStale {
					t.Errorf("the old process ended with %v", err)
				}
				fresh.stop()
				if err := <-fresh.ended; err != nil {
					t.Error(err)
				}
				confirmed(t, s.events("job"))
			})
		})
	}
}

// confirmed checks that its worker ended the revoked lease: one that a sweep ends has no text.
func confirmed(t *testing.T, events []rota.ServedEvent) {
	t.Helper()
	var revoked, ended *rota.ServedEvent
	for i := range events {
		switch e := &events[i]; e.Kind {
		case rota.EventLeaseRevoked:
			revoked = e
		case rota.EventLeaseCancelled:
			ended = e
		}
	}
	if revoked == nil || ended == nil || revoked.Reason != rota.ReasonTakenOver ||
		ended.Reason != rota.ReasonTakenOver || ended.Text == "" {
		t.Errorf("revoked %+v, ended %+v", revoked, ended)
	}
}
