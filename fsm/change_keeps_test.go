package fsm

import (
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
)

// TestChangeKeeps checks that a change only changes the fields that it names.
func TestChangeKeeps(t *testing.T) {
	t.Parallel()
	urgent := rota.JobChange{ID: "j", Priority: to[int32](1)}
	retried := func(t *testing.T) (*bench, *state.JobRow) {
		b := newBench(t)
		b.ok(queueOp("default", "ttl_abs_ms", "30000"))
		b.ok(verb(rota.VerbAck, b.leased("j", "w")))
		b.ok(cancelOp("j"))
		b.ok(retryOp("j"))
		j := b.JobTable.Get("j")
		if j.Due <= b.Header.Clock || j.ExpireAbs != j.Due+30_000 {
			t.Fatalf("now %d, the retried job wakes at %d and expires at %d", b.Header.Clock, j.Due, j.ExpireAbs)
		}
		return b, j
	}
	t.Run("the_end_of_a_retried_job", func(t *testing.T) {
		t.Parallel()
		b, j := retried(t)
		was := j.ExpireAbs
		b.ok(b.changeOf(urgent))
		if j = b.JobTable.Get("j"); j.ExpireAbs != was {
			t.Errorf("it expires at %d, want %d", j.ExpireAbs, was)
		}
		b.sound()
	})
	t.Run("from_when_a_time_to_live_counts", func(t *testing.T) {
		t.Parallel()
		b, _ := retried(t)
		b.ok(b.changeOf(rota.JobChange{ID: "j", TTL: to(5 * time.Second)}))
		if j := b.JobTable.Get("j"); j.ExpireAbs != j.Due+5_000 {
			t.Errorf("it wakes at %d and expires at %d", j.Due, j.ExpireAbs)
		}
		b.sound()
	})
	t.Run("a_queue_s_new_time_to_live_out", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("j")
		b.ok(queueOp("default", "ttl_abs_ms", "1000"))
		b.pass(5_000)
		b.ok(b.changeOf(urgent))
		b.pass(1_000)
		b.state("j", rota.JobQueued)
	})
	t.Run("labels_without_a_value", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("j", func(s *rota.JobSpec) { s.Labels = map[string]string{"bare": "", "gone": "1"} })
		b.ok(b.changeOf(rota.JobChange{ID: "j", Labels: map[string]string{"more": "2", "gone": ""}}))
		labels := b.state("j", rota.JobQueued).Labels
		if _, kept := labels["bare"]; !kept || len(labels) != 2 || labels["more"] != "2" {
			t.Errorf("labels are %v", labels)
		}
	})
	t.Run("events_small", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("j")
		for _, key := range []string{strings.Repeat("k", 900_000), "a\nb", ""} {
			b.refuses(rota.KindInvalid, "labels", b.changeOf(rota.JobChange{ID: "j", Priority: to[int32](1),
				Labels: map[string]string{key: ""}}))
		}
	})
}
