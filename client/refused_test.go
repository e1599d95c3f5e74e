package client

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// TestSubmit_tellsOfRefusals checks that a refused job is an error, for callers who check only that, and that each
// outcome is still returned.
func TestSubmit_tellsOfRefusals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		full := rota.Refusef(rota.KindExhausted, "queue_cap", "queue q is full")
		f.nodes[0].onSubmit = func(_ context.Context, r *rotav1.SubmitRequest) (*rotav1.SubmitResponse, error) {
			answer := accept(r)
			for i, j := range r.Jobs {
				switch j.Id {
				case "full":
					answer.Jobs[i].Refusal = words.RefusalToWire(full)
				case "nowhere":
					answer.Jobs[i].Refusal = words.RefusalToWire(rota.Refusef(rota.KindNotFound, "queue",
						"queue n is not known"))
				}
			}
			return answer, nil
		}
		job := func(id rota.JobID) rota.JobSpec {
			s := rota.NewJobSpec("t", nil)
			s.ID = id
			return s
		}
		out, err := f.client.Submit(t.Context(), job("good"), job("nowhere"), job("full"))
		var refused *RefusedError
		if !errors.As(err, &refused) || len(refused.Jobs) != 2 || refused.Of != 3 ||
			rota.KindOf(err) != rota.KindNotFound ||
			!errors.Is(err, out[2].Err) || !errors.Is(err, out[1].Err) {
			t.Fatalf("%+v, %v", out, err)
		}
		if text := err.Error(); !strings.Contains(text,
			"2 of 3 jobs are refused, first nowhere: queue n is not known") {
			t.Errorf("got %q", text)
		}
		if out[0].Err != nil || out[0].State != rota.JobQueued || rota.KindOf(out[2].Err) != rota.KindExhausted {
			t.Errorf("outcomes %+v", out)
		}
		if _, err = f.client.Submit(t.Context(), job("full")); rota.KindOf(err) != rota.KindExhausted ||
			!strings.Contains(err.Error(), "job full is refused: queue q is full") {
			t.Errorf("one job: %v", err)
		}
		if all, err := EachOutcome(f.client.Submit(t.Context(), job("full"))); err != nil || all[0].Err == nil {
			t.Errorf("each by itself: %+v, %v", all, err)
		}
		if _, err = f.client.Submit(t.Context(), job("good")); err != nil {
			t.Errorf("a good one: %v", err)
		}
	})
}
