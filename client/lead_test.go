package client

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// TestSubmit_goesToTheLeader follows a client to the leader that a node named, away from it when it fails, and not back
// at once when the same node names it again.
func TestSubmit_goesToTheLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 3)
		defer stop()
		var mu sync.Mutex
		var asked []int
		leads, down, paused := 2, -1, -1
		named := func(n int) string { return f.nodes[n].address }
		for i, n := range f.nodes {
			n.onSubmit = func(ctx context.Context, r *rotav1.SubmitRequest) (*rotav1.SubmitResponse, error) {
				mu.Lock()
				asked = append(asked, i)
				mu.Unlock()
				if i == down {
					return nil, words.ToStatus(rota.Refusef(rota.KindUnavailable, "", "going down"))
				}
				if i == paused {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				if i != leads {
					if err := grpc.SetTrailer(ctx, metadata.Pairs(words.LeaderKey, named(leads))); err != nil {
						t.Error(err)
					}
				}
				return accept(r), nil
			}
			n.onGet = func(context.Context, *rotav1.GetJobRequest) (*rotav1.GetJobResponse, error) {
				asked = append(asked, i)
				return &rotav1.GetJobResponse{Job: &rotav1.Job{Spec: &rotav1.JobSpec{Id: "j"}}}, nil
			}
		}
		submits := func(want ...int) {
			t.Helper()
			asked = nil
			if out, err := f.client.Submit(t.Context(), rota.NewJobSpec("t", nil)); err != nil || out[0].Err != nil {
				t.Fatal(out, err)
			}
			synctest.Wait() // until the abandoned nodes have noticed
			if !slices.Equal(asked, want) {
				t.Fatalf("the submission went to %v, want %v", asked, want)
			}
		}
		submits(0) // forwarded, with the leader named
		submits(2)
		leads = 1 // the former leader forwards, and names the new one
		submits(2)
		submits(1)
		asked = nil
		if _, err := f.client.Job(t.Context(), "j"); err != nil || !slices.Equal(asked, []int{0}) {
			t.Fatalf("a read went to %v, want the present node: %v", asked, err)
		}
		down = 1
		submits(1, 0) // node 0 still names it
		submits(0)
		down = -1
		time.Sleep(leadShunned)
		submits(0)
		submits(1)
		named = func(int) string { return "elsewhere:6470" }
		leads = 2
		submits(1) // a name that is not among this client's addresses is ignored
		submits(1)
		paused = 1
		began := time.Now()
		submits(1, 0)
		if took := time.Since(began); took > maxLead+time.Second {
			t.Fatalf("a paused leader was waited for for %s", took)
		}
		time.Sleep(leadShunned)
		named, leads = func(n int) string { return f.nodes[n].address }, 1
		submits(0)
		asked = nil
		short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := f.client.Submit(short, rota.NewJobSpec("t", nil))
		synctest.Wait()
		if err == nil || !slices.Equal(asked, []int{1}) {
			t.Fatalf("within less than a try the paused leader was asked, %v: %v", asked, err)
		}
		submits(0) // the next call uses another node
	})
}
