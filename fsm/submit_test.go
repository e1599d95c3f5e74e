package fsm

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/internal/peer"
)

func TestSubmit(t *testing.T) {
	t.Parallel()
	t.Run("is_idempotent_by_id", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("j")
		b.ok(queueOp("default", "queue_cap", "1")) // a known id is answered before any check
		if o := b.ok(submitOp(jobSpec("j"))); !o.GetExisted() || rota.JobState(o.GetJobState()) != rota.JobQueued {
			t.Fatalf("outcome %v", o)
		}
		b.ok(cancelOp("j"))
		if o := b.ok(submitOp(jobSpec("j"))); !o.GetExisted() || rota.JobState(o.GetJobState()) != rota.JobCancelled {
			t.Fatalf("outcome %v", o)
		}
	})
	t.Run("refuses_what_is_out_of_shape", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		for _, c := range []struct {
			subject string
			change  func(*rota.JobSpec)
		}{
			{"id", func(s *rota.JobSpec) { s.ID = "" }},
			{"id", func(s *rota.JobSpec) { s.ID = "../../etc/passwd" }},
			{"id", func(s *rota.JobSpec) { s.ID = "a\x00b" }},
			{"id", func(s *rota.JobSpec) { s.ID = "jоb" }}, // a Cyrillic о
			{"id", func(s *rota.JobSpec) { s.ID = rota.JobID(strings.Repeat("x", 65)) }},
			{"id", func(s *rota.JobSpec) { s.ID = rota.JobID(strings.Repeat("x", 1<<18)) }},
			{"type", func(s *rota.JobSpec) { s.Type = "" }},
			{"tenant", func(s *rota.JobSpec) { s.Tenant = "" }},
			{"queue", func(s *rota.JobSpec) { s.Queue = "" }},
			{"domain", func(s *rota.JobSpec) { s.Domain = "a b" }},
			{"worker", func(s *rota.JobSpec) { s.Worker = "a/b" }},
			{"priority", func(s *rota.JobSpec) { s.Priority = 11 }},
			{"priority", func(s *rota.JobSpec) { s.Priority = -1 }},
			{"priority", func(s *rota.JobSpec) { s.Priority = math.MaxInt32 }},
			{"fee", func(s *rota.JobSpec) { s.Fee = -1 }},
			{"fee", func(s *rota.JobSpec) { s.Fee = math.MaxInt64 }},
			{"size_bytes", func(s *rota.JobSpec) { s.SizeBytes = math.MaxInt64 }},
			{"delay_ms", func(s *rota.JobSpec) { s.Delay = millis.Duration(math.MaxInt64) }},
			{"delay_ms", func(s *rota.JobSpec) { s.Delay = millis.Duration(-1) }},
			{"not_before_ms", func(s *rota.JobSpec) { s.NotBefore = rota.Date(math.MaxInt64).Time() }},
			{"ttl_ms", func(s *rota.JobSpec) { s.TTL = millis.Duration(math.MinInt64) }},
			{"max_runtime_ms", func(s *rota.JobSpec) { s.MaxRuntime = millis.Duration(math.MaxInt64) }},
			{"cpu_milli", func(s *rota.JobSpec) { s.CPUMilli = math.MaxInt64 }},
			{"memory_bytes", func(s *rota.JobSpec) { s.MemoryBytes = -5 }},
			{"payload", func(s *rota.JobSpec) { s.Payload = make([]byte, rota.MaxPayloadBytes+1) }},
			{"expected_digest", func(s *rota.JobSpec) { s.ExpectedDigest = make([]byte, 31) }},
			{"requires", func(s *rota.JobSpec) { s.Requires = make([]string, 33) }},
			{"requires", func(s *rota.JobSpec) { s.Requires = []string{"a b"} }},
			{"regions_deny", func(s *rota.JobSpec) { s.RegionsDeny = []string{""} }},
			{"headers", func(s *rota.JobSpec) { s.Headers = manyHeaders(rota.MaxHeaders+1, 1) }},
			{"headers", func(s *rota.JobSpec) {
				s.Headers = manyHeaders(rota.MaxHeaders, rota.MaxHeadersBytes/rota.MaxHeaders)
			}},
			{"headers", func(s *rota.JobSpec) { s.Headers = map[string]string{"trace parent": "v"} }},
			{"headers", func(s *rota.JobSpec) { s.Headers = map[string]string{"": "v"} }},
			{"headers", func(s *rota.JobSpec) { s.Headers = map[string]string{"k": "\r\nSet-Cookie: a"} }},
			{"labels", func(s *rota.JobSpec) { s.Labels = map[string]string{"k": strings.Repeat("v", 200)} }},
		} {
			b.refuses(rota.KindInvalid, c.subject, submitOp(jobSpec("j", c.change)))
		}
		b.refuses(rota.KindInvalid, "id", &fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{}}})
		b.refuses(rota.KindNotFound, "queue", submitOp(jobSpec("j", func(s *rota.JobSpec) { s.Queue = "nowhere" })))
	})
	t.Run("refuses_a_million_labels", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		op := submitOp(jobSpec("j"))
		same := &fsmpb.Label{Key: "k", Value: "v"}
		for range 1_000_000 {
			op.GetSubmit().Spec.Labels = append(op.GetSubmit().Spec.Labels, same)
		}
		b.refuses(rota.KindInvalid, "labels", op)
	})
	t.Run("refuses_before_the_cluster_began", func(t *testing.T) {
		t.Parallel()
		b := emptyBench(t)
		b.refuses(rota.KindUnavailable, "cluster", submitOp(jobSpec("j")))
		b.refuses(rota.KindUnavailable, "cluster", queueOp("q"))
	})
	t.Run("refuses_beyond_the_cap_and_the_threshold", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "queue_cap", "10", "reject_threshold", "0.9"))
		for i := range 9 {
			b.submit(fmt.Sprint("j", i))
		}
		b.refuses(rota.KindExhausted, "queue", submitOp(jobSpec("normal")))
		b.submit("urgent", func(s *rota.JobSpec) { s.Priority = 0 })
		o := b.refuses(rota.KindExhausted, "queue", submitOp(jobSpec("urgent2",
			func(s *rota.JobSpec) { s.Priority = 0 })))
		if o.GetRetryAfterMs() <= 0 {
			t.Fatalf("the refusal has no delay: %v", o)
		}
		b.ok(cancelOp("j0"))
		b.submit("urgent2", func(s *rota.JobSpec) { s.Priority = 0 })
	})
	t.Run("refuses_a_class_too_many", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.every = 1 << 30
		cpu := func(n int) func(*rota.JobSpec) { return func(s *rota.JobSpec) { s.CPUMilli = int64(n) } }
		for i := range limits.MaxClassesPerQueue {
			b.submit(fmt.Sprint("j", i), cpu(i+1))
		}
		b.refuses(rota.KindExhausted, "requires", submitOp(jobSpec("one-more", cpu(1_000_000))))
		b.submit("known-class", cpu(1))
		b.ok(cancelOp("j5"))
		b.submit("now", cpu(1_000_000))
		b.refuses(rota.KindExhausted, "requires", retryOp("j5"))
		b.sound()
	})
	t.Run("waits_for_delay_and_then_for_the_date", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("j", func(s *rota.JobSpec) {
			s.Delay, s.NotBefore = 10*time.Second, rota.Date(startClock+20_000).Time()
		})
		b.submit("early", func(s *rota.JobSpec) {
			s.Delay, s.NotBefore = 10*time.Second, rota.Date(startClock+5_000).Time()
		})
		b.pass(9_999)
		b.state("early", rota.JobDelayed)
		b.pass(1)
		b.state("early", rota.JobQueued)
		b.state("j", rota.JobDelayed)
		if at, ok := b.View.NextDate(); !ok || at != startClock+20_000 {
			t.Fatalf("next date %d", at)
		}
		b.pass(10_000)
		if j := b.state("j", rota.JobQueued); j.Enqueued.Clock != startClock+20_000 {
			t.Fatalf("enqueued %d", j.Enqueued.Clock-startClock)
		}
	})
	t.Run("waits_for_no_date_in_backoff", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("j", func(s *rota.JobSpec) { s.NotBefore = rota.Date(startClock + 1000).Time() })
		b.worker("w", 1)
		b.pass(1000)
		l := b.match()["j"]
		b.ok(verb(rota.VerbFail, l))
		b.pass(6_000)
		if j := b.state("j", rota.JobQueued); j.Enqueued.Clock != startClock+1000 {
			t.Fatalf("enqueued %d: it stays through retries", j.Enqueued.Clock-startClock)
		}
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.refuses(rota.KindNotFound, "job", cancelOp("nothing"))
	b.refuses(rota.KindNotFound, "job", retryOp("nothing"))
	b.submit("j")
	b.submit("delayed", func(s *rota.JobSpec) { s.Delay = time.Second })
	b.submit("dated", func(s *rota.JobSpec) { s.NotBefore = rota.Date(startClock + 1000).Time() })
	for _, id := range []string{"j", "delayed", "dated"} {
		b.ok(cancelOp(id))
		b.state(id, rota.JobCancelled)
	}
	b.pass(2000) // nothing fires for them
	l := b.leased("done", "w")
	b.ok(verb(rota.VerbComplete, l))
	b.refuses(rota.KindConflict, "job", cancelOp("done"))
	b.refuses(rota.KindConflict, "job", retryOp("done"))
}

func TestRetry(t *testing.T) {
	t.Parallel()
	t.Run("revives_with_fresh_attempts_and_payload", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "ttl_rel_max", "1m"))
		l := b.leased("j", "w", func(s *rota.JobSpec) { s.TTL, s.Payload = 50*time.Second, []byte("body") })
		b.ok(verb(rota.VerbFail, l, func(c *peer.LeaseCommand) { c.Fail = peer.FailNoRetry }))
		b.pass(30_000)
		b.ok(retryOp("j"))
		if o := b.ok(retryOp("j")); !o.GetExisted() {
			t.Fatalf("outcome %v", o)
		}
		if j := b.state("j", rota.JobQueued); j.Attempt != 0 || len(j.Attempts) != 1 || string(j.Payload) != "body" {
			t.Fatalf("job %+v", j)
		}
		b.pass(49_999) // from the revival
		b.state("j", rota.JobQueued)
		l2 := b.match()["j"]
		if o := b.ok(retryOp("j")); !o.GetExisted() { // the same retry, however late
			t.Fatalf("outcome %v", o)
		}
		b.pass(1)
		if j := b.state("j", rota.JobExpired); j.Reason != rota.ReasonTTLAbsolute {
			t.Fatalf("job %+v", j)
		}
		b.refuses(rota.KindStale, "lease", verb(rota.VerbComplete, l2))
		b.ok(retryOp("j"))
		b.state("j", rota.JobDelayed) // until its worker's view is over
	})
	t.Run("revives_what_never_ran", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("j")
		b.ok(cancelOp("j"))
		b.ok(retryOp("j"))
		if o := b.ok(retryOp("j")); !o.GetExisted() {
			t.Fatalf("outcome %v", o)
		}
	})
	t.Run("refuses_when_the_payload_is_gone", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.every = 1 << 30
		body := make([]byte, rota.MaxPayloadBytes)
		n := limits.RecordBytesCap/rota.MaxPayloadBytes + 1
		for i := range n {
			b.submit(fmt.Sprint("j", i), func(s *rota.JobSpec) { s.Payload = body })
			b.ok(cancelOp(fmt.Sprint("j", i)))
		}
		b.sound()
		b.refuses(rota.KindOutOfRange, "job", retryOp("j0"))
		if j := b.state("j0", rota.JobCancelled); !j.RecordDropped {
			t.Fatalf("job %+v", j)
		}
		b.ok(retryOp(fmt.Sprint("j", n-1)))
	})
	t.Run("refuses_beyond_the_cap", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("j")
		b.ok(cancelOp("j"))
		b.submit("other")
		b.ok(queueOp("default", "queue_cap", "1"))
		b.refuses(rota.KindExhausted, "queue", retryOp("j"))
	})
}
