package client

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// refusing sets up a node whose queue is full for all jobs but those of priority 0, and where a tenant is above its
// rate limit in one queue; asked records the jobs that reach it.
func refusing(f *fakeCluster, asked *[]string) {
	f.nodes[0].onSubmit = func(_ context.Context, r *rotav1.SubmitRequest) (*rotav1.SubmitResponse, error) {
		answer := accept(r)
		for i, j := range r.Jobs {
			*asked = append(*asked, fmt.Sprint(j.Queue, j.Tenant, j.GetPriority()))
			e := rota.Refusef(rota.KindExhausted, "queue", "queue full holds 9 pending jobs: queue_cap is 9")
			e.RetryAfter = time.Second
			if j.Tenant == "eager" {
				e = rota.Refusef(rota.KindExhausted, "rate_limit_rps", "too fast")
				e.RetryAfter = 20 * time.Millisecond
			}
			if j.Id != "known" && (j.Queue == "full" && j.GetPriority() > 0 || j.Tenant == "eager") {
				answer.Jobs[i].Refusal = words.RefusalToWire(e)
			}
		}
		return answer, nil
	}
}

func TestSubmit_holdsBackWhatWasToComeLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		var asked []string
		refusing(f, &asked)
		job := func(queue rota.QueueName, tenant rota.TenantID, priority int32) rota.JobSpec {
			s := rota.NewJobSpec("t", nil)
			s.Queue, s.Tenant, s.Priority = queue, tenant, priority
			return s
		}
		submit := func(s rota.JobSpec) (e error, sent bool) {
			before := len(asked)
			out, err := EachOutcome(f.client.Submit(t.Context(), s))
			if err != nil || out[0].ID == "" {
				t.Fatal(out, err)
			}
			return out[0].Err, len(asked) > before
		}
		wantSent := func(s rota.JobSpec, sent, refused bool) {
			t.Helper()
			e, did := submit(s)
			if did != sent || (e != nil) != refused || e != nil && errors.Is(e, ErrHeldBack) == sent {
				t.Fatalf("%s %s %d: sent %v, %v", s.Queue, s.Tenant, s.Priority, did, e)
			}
		}
		wantSent(job("full", "a", 5), true, true)
		time.Sleep(600 * time.Millisecond)
		refusal, sent := submit(job("full", "b", 7))
		e := rota.ErrorOf(refusal)
		if sent || e == nil || e.Kind != rota.KindExhausted || e.Subject != "queue" ||
			e.RetryAfter < 400*time.Millisecond ||
			e.RetryAfter > 650*time.Millisecond || e.Text != "queue full holds 9 pending jobs: queue_cap is 9" {
			t.Fatalf("sent %v, %+v", sent, e)
		}
		wantSent(job("full", "a", 0), true, false)
		wantSent(job("other", "a", 5), true, false)
		wantSent(job("", "a", 5), true, false)
		known := job("full", "a", 5)
		known.ID = "known"
		wantSent(known, true, false)
		time.Sleep(650 * time.Millisecond)
		wantSent(job("full", "a", 5), true, true)

		wantSent(job("other", "eager", 5), true, true)
		wantSent(job("other", "eager", 0), false, true)
		wantSent(job("third", "eager", 5), true, true)
		wantSent(job("other", "calm", 5), true, false)
		time.Sleep(20 * time.Millisecond)
		wantSent(job("other", "eager", 5), true, true)
		synctest.Wait()
	})
}

func TestSubmit_withoutRestraint(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		f.client.held.off = true
		var asked []string
		refusing(f, &asked)
		for range 3 {
			s := rota.NewJobSpec("t", nil)
			s.Queue = "full"
			if out, err := EachOutcome(f.client.Submit(t.Context(), s)); err != nil || out[0].Err == nil ||
				errors.Is(out[0].Err, ErrHeldBack) {
				t.Fatal(out, err)
			}
		}
		if len(asked) != 3 {
			t.Fatalf("%d jobs were sent", len(asked))
		}
	})
}

func TestRestraint_isBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var r restraint
		e := &rota.Error{Kind: rota.KindExhausted, Subject: "queue", RetryAfter: time.Hour}
		spec := rota.NewJobSpec("t", nil)
		for i := range 2 * heldKinds {
			spec.Queue = rota.QueueName(fmt.Sprint("q", i))
			r.note(&spec, e)
		}
		if len(r.holds) != heldKinds {
			t.Fatalf("%d kinds are held back", len(r.holds))
		}
		time.Sleep(maxRetryAfter + maxRetryAfter/queueJitter + 1) // no node delays us for an hour
		spec.Queue = "q1"
		if r.refuses(&spec) != nil || len(r.holds) != heldKinds-1 {
			t.Fatal("an expired refusal is held back")
		}
		if r.note(&spec, e); len(r.holds) != heldKinds {
			t.Fatal("there is no room for another")
		}
		spec.Queue = "another"
		if r.note(&spec, e); len(r.holds) != 2 {
			t.Fatalf("%d kinds are held back", len(r.holds))
		}
	})
}
