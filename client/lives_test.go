package client

import (
	"context"
	"slices"
	"testing"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// TestRetry_saysWhichLifeItFollows loses the answer of a retry, and the job dies again before the repeated try: that
// names the life that was read first, and the cluster refuses it.
func TestRetry_saysWhichLifeItFollows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		n, life, asked := f.nodes[0], int32(2), [][]int32{}
		n.onGet = func(_ context.Context, r *rotav1.GetJobRequest) (*rotav1.GetJobResponse, error) {
			job := rota.Job{State: rota.JobDead, Life: life}
			switch r.GetId() {
			case "runs":
				job = rota.Job{State: rota.JobRunning, Life: 5}
			case "unknown":
				return nil, words.ToStatus(rota.Refusef(rota.KindNotFound, "job", "unknown"))
			}
			return &rotav1.GetJobResponse{Job: words.JobToWire(&job)}, nil
		}
		n.onRetry = func(r *rotav1.RetryJobsRequest) (*rotav1.JobOutcomes, error) {
			asked = append(asked, r.GetLives())
			if life == 2 {
				life++ // retried, and dead again
				return nil, words.ToStatus(rota.Refusef(rota.KindUnavailable, "", "the answer is lost"))
			}
			stale := words.RefusalToWire(rota.Refusef(rota.KindStale, "life", "look again"))
			return &rotav1.JobOutcomes{Jobs: []*rotav1.JobOutcome{{Refusal: stale}, {}, {}}}, nil
		}
		out, err := f.client.Retry(t.Context(), "j", "runs", "unknown")
		want := []int32{2, 4, rota.AnyLife}
		if err != nil || rota.KindOf(out[0].Err) != rota.KindStale || out[1].Err != nil || len(asked) != 2 ||
			!slices.Equal(asked[0], want) || !slices.Equal(asked[1], want) {
			t.Fatalf("%+v, %v, asked with lives %v", out, err, asked)
		}
		if _, err := f.client.RetryLives(t.Context(), rota.JobRetry{ID: "j", Life: 1}, rota.JobRetry{ID: "k"},
			rota.JobRetry{ID: "l"}); err != nil ||
			!slices.Equal(asked[2], []int32{1, 0, 0}) {
			t.Fatalf("%v, asked with lives %v", err, asked[2])
		}
	})
}

// TestChangeJob_saysWhatItFollows checks the same for a change.
func TestChangeJob_saysWhatItFollows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		n, changes, asked := f.nodes[0], int32(4), []*rotav1.ChangeJobRequest{}
		n.onGet = func(context.Context, *rotav1.GetJobRequest) (*rotav1.GetJobResponse, error) {
			return &rotav1.GetJobResponse{Job: words.JobToWire(&rota.Job{State: rota.JobQueued, Life: 1,
				Changes: changes})}, nil
		}
		n.onChange = func(r *rotav1.ChangeJobRequest) (*rotav1.JobOutcome, error) {
			asked = append(asked, r)
			if changes++; len(asked) == 1 {
				return nil, words.ToStatus(rota.Refusef(rota.KindUnavailable, "", "the answer is lost"))
			}
			return nil, words.ToStatus(rota.Refusef(rota.KindStale, "changes", "look again"))
		}
		fee := int64(1)
		_, err := f.client.ChangeJob(t.Context(), rota.JobChange{ID: "j", Fee: &fee})
		if rota.KindOf(err) != rota.KindStale || len(asked) != 2 || asked[1].Life == nil || asked[1].GetLife() != 1 ||
			asked[1].GetChanges() != 4 {
			t.Fatalf("%v, asked %v", err, asked)
		}
	})
}
