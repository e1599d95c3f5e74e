package fsm

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
)

// TestFailuresHoldNobodyUp checks the behaviour without a stricter policy: the effects of a tenant's jobs on a worker
// delay no other tenant, queue or type.
func TestFailuresHoldNobodyUp(t *testing.T) {
	t.Parallel()
	for _, preset := range []string{"standard", "fluxforge", "dag", "dfps"} {
		t.Run("of_another_tenant_in_another_queue/"+preset, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			for _, q := range []string{"qa", "qb"} {
				b.ok(presetOp(q, preset, "backoff_base", "300", "attempt_max", "10"))
			}
			b.worker("w", 16, serving("qa", "qb"))
			for i := range 3 {
				b.ok(verb(rota.VerbFail, b.acked(fmt.Sprint("bad", i), queue("qa"), tenant("evil"), typed("bad"))))
			}
			b.now++
			b.submit("good", queue("qb"), tenant("nice"), typed("good"))
			if l := b.match()["good"]; l.Job == "" {
				t.Fatal("a good job of another tenant in another queue waits for three bad ones")
			}
		})
	}
	t.Run("of_the_same_job_whose_retries_come_in_time", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "backoff_base", "300", "backoff_factor_permille", "1000", "attempt_max", "6"))
		b.worker("w", 16)
		b.submit("j")
		for attempt := range int32(5) {
			l := b.match()["j"]
			if l.Job == "" || l.Attempt != attempt {
				t.Fatalf("attempt %d was not placed when its backoff was over: %+v", attempt, l)
			}
			b.ok(verb(rota.VerbFail, l))
			b.pass(330) // 300 ms, give or take a tenth
		}
	})
	t.Run("of_jobs_of_a_type_that_no_handler_knows", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("v", 8)
		b.worker("w", 8)
		for i := range 12 {
			b.submit(fmt.Sprint("unknown", i), typed("unknown"))
		}
		for range 5 {
			for _, l := range inOrder(b.match()) {
				b.ok(verb(rota.VerbDecline, l))
			}
			b.pass(250)
		}
		b.submit("known", typed("known"))
		if b.match()["known"].Job == "" {
			t.Fatal("jobs that were declined keep the workers from what they know")
		}
	})
	t.Run("of_leases_that_expired", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "lease_ms", "1000", "ack_timeout", "1000", "attempt_max", "1"))
		b.ok(queueOp("qb"))
		b.worker("w", 16, serving("qb"))
		for i := range 12 {
			b.acked(fmt.Sprint("slow", i), tenant("evil"))
		}
		b.pass(1_000)
		b.health("w", 1000)
		b.submit("same-type", queue("qb"), tenant("nice"))
		if b.match()["same-type"].Job == "" {
			t.Fatal("leases that expired keep their worker from another tenant's jobs")
		}
	})
}
