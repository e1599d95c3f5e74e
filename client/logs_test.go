package client

import (
	"context"
	"errors"
	"testing"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// TestFollowLog_missesNoTail checks the gap between a node dropping a log and the archive having it, in which no log is
// found. A follower reads again, and ends without the tail only if the log stays missing.
func TestFollowLog_missesNoTail(t *testing.T) {
	part := func(at uint64, text string) []*rotav1.LogPart {
		return []*rotav1.LogPart{{At: at, Text: []byte(text)}}
	}
	lost := words.ToStatus(rota.Refusef(rota.KindNotFound, "lease", "nothing is kept"))
	gone := words.ToStatus(rota.Refusef(rota.KindNotFound, "job", "it is not known"))
	lease := make([]byte, len(rota.LeaseID{}))
	lease[0] = 7
	for name, c := range map[string]struct {
		misses int
		end    error
		want   string
		asked  int
	}{
		"one miss":        {1, nil, "begun\nended\n", 3},
		"as many as may":  {followTries, nil, "begun\nended\n", 2 + followTries},
		"nothing is kept": {followTries + 9, nil, "begun\n", 2 + followTries},
		"the job is gone": {0, gone, "begun\n", 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f, stop := setup(t, 1)
				defer stop()
				asked := 0
				f.nodes[0].onLog = func(r *rotav1.JobLogRequest) (*rotav1.JobLogResponse, error) {
					switch asked++; {
					case asked == 1:
						return &rotav1.JobLogResponse{LeaseId: lease, Open: true, Parts: part(0, "begun\n")}, nil
					case r.GetAfter() != 6 || r.GetLeaseId()[0] != 7:
						return nil, words.ToStatus(rota.Refusef(rota.KindInvalid, "after", "%d", r.GetAfter()))
					case c.end != nil:
						return nil, c.end
					case asked <= 1+c.misses:
						return nil, lost
					}
					return &rotav1.JobLogResponse{LeaseId: lease, Parts: part(6, "ended\n")}, nil
				}
				got, open := "", true
				for l, err := range FollowLog(t.Context(), f.client, rota.LogOf{Job: "j"}) {
					if err != nil {
						t.Fatal(name, err)
					}
					for _, p := range l.Parts {
						got += string(p.Text)
					}
					open = l.Open
				}
				if got != c.want || open || asked != c.asked {
					t.Errorf("%s: got %q after %d calls, open %v; want %q after %d", name, got, asked, open, c.want,
						c.asked)
				}
			})
		})
	}
}

// TestFollowLog_ends checks that a loop that is left does not wait further, even while no log is kept.
func TestFollowLog_ends(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		ctx, cancel := context.WithCancel(t.Context())
		asked := 0
		f.nodes[0].onLog = func(*rotav1.JobLogRequest) (*rotav1.JobLogResponse, error) {
			if asked++; asked == 1 {
				return &rotav1.JobLogResponse{LeaseId: make([]byte, len(rota.LeaseID{})), Open: true}, nil
			}
			cancel()
			return nil, words.ToStatus(rota.Refusef(rota.KindNotFound, "lease", "nothing is kept"))
		}
		var last error
		for _, err := range FollowLog(ctx, f.client, rota.LogOf{Job: "j"}) {
			last = err
		}
		if !errors.Is(last, context.Canceled) {
			t.Errorf("it ends with %v", last)
		}
	})
}
