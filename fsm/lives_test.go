package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// lives returns the attempts of a job as life.number, oldest first.
func lives(attempts []rota.Attempt) (told []string) {
	for i := range attempts {
		told = append(told, fmt.Sprintf("%d.%d", attempts[i].Life, attempts[i].Number))
	}
	return told
}

// TestLives checks the record of a job's lives against SPEC §16.6.
func TestLives(t *testing.T) {
	t.Parallel()
	// fails lets a new worker, with full health, fail an attempt.
	fails := func(b *bench, id rota.JobID, last bool, text string) {
		b.worker(fmt.Sprint("w", b.Header.Index), 1)
		b.ok(verb(rota.VerbFail, b.match()[id], func(c *peer.LeaseCommand) {
			if c.Text = text; last {
				c.Fail = peer.FailNoRetry
			}
		}))
	}
	dead := func(b *bench, id rota.JobID, text string) { fails(b, id, true, text) }
	t.Run("three_retries_tell_of_all_lives", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "attempt_max", "2", "backoff_base_ms", "0"))
		b.submit("j")
		submitted := b.Header.Now()
		for life := range 4 {
			if life > 0 {
				b.pass(1_000)
				b.ok(retryOp("j"))
				if job, _ := b.View.Job("j"); job.Retried != b.Header.Now() || int(job.Life) != life ||
					job.Error != fmt.Sprint("life ", life-1) {
					t.Fatalf("life %d begins as %+v", life, job)
				}
			}
			fails(b, "j", false, "")
			dead(b, "j", fmt.Sprint("life ", life))
		}
		want := []string{"0.0", "0.1", "1.0", "1.1", "2.0", "2.1", "3.0", "3.1"}
		job := b.state("j", rota.JobDead)
		if got := lives(job.Attempts); !slices.Equal(got, want) || job.Submitted != submitted || job.Life != 3 {
			t.Fatalf("%v, %+v", got, job)
		}
		s, _ := b.View.StagedJob("j")
		if e, err := DecodeEnded(s.Append(nil)); err != nil || !slices.Equal(lives(e.Job.Attempts), want) ||
			e.Job.Life != 3 ||
			e.Job.Retried != job.Retried || e.Job.Retried.IsZero() {
			t.Fatalf("the record has %+v, %v", e, err)
		}
	})
	t.Run("the_newest_twelve_are_kept", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("j")
		dead(b, "j", "")
		for range 14 {
			b.ok(retryOp("j"))
			dead(b, "j", "")
		}
		if got := lives(b.state("j", rota.JobDead).Attempts); len(got) != limits.MaxAttemptsKept || got[0] != "3.0" ||
			got[11] != "14.0" {
			t.Fatalf("%v", got)
		}
	})
	t.Run("times_to_live_count_from_the_retry", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("j", func(s *rota.JobSpec) { s.TTL = 5 * time.Second })
		b.pass(5_000)
		b.state("j", rota.JobExpired)
		b.ok(retryOp("j"))
		b.pass(4_999)
		b.state("j", rota.JobQueued)
		b.pass(1)
		b.state("j", rota.JobExpired)
	})
	t.Run("a_retry_names_the_life_that_ended", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("j")
		b.refuses(rota.KindConflict, "job", retryOp("j"))
		b.ok(cancelOp("j"))
		first := &fsmpb.Retry{Job: "j"}
		first.Spec, first.Past = b.pastOf("j")
		retry := func(life int32) *fsmpb.Op {
			return &fsmpb.Op{Op: &fsmpb.Op_Retry{Retry: &fsmpb.Retry{Job: "j", Spec: first.Spec, Past: first.Past,
				Life: life}}}
		}
		b.refuses(rota.KindStale, "life", retry(1))
		b.ok(retry(0))
		if o := b.ok(retry(0)); !o.GetExisted() {
			t.Fatalf("the repetition: %v", o)
		}
		b.refuses(rota.KindConflict, "job", retry(1)) // that life has not ended
		b.ok(cancelOp("j"))
		b.refuses(rota.KindStale, "life", retry(0)) // a late repetition starts no third life
		b.ok(retry(1))
	})
	t.Run("a_rejected_proof_keeps_all_attempts", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "backoff_base_ms", "0"))
		b.submit("j", func(s *rota.JobSpec) { s.RetryOnInvalidProof = true })
		submitted := b.Header.Now()
		dead(b, "j", "")
		b.pass(1_000)
		b.ok(retryOp("j"))
		retried := b.Header.Now()
		fails(b, "j", false, "")
		b.worker("w", 1)
		l := b.match()["j"]
		b.ok(verb(rota.VerbComplete, l))
		b.pass(1_000)
		b.ok(reportOp(l, func(s *rota.JobSpec) { s.RetryOnInvalidProof = true }))
		job, _ := b.View.Job("j")
		if got := lives(job.Attempts); !slices.Equal(got, []string{"0.0", "1.0", "1.1"}) ||
			job.Submitted != submitted || job.Retried != retried || job.Life != 1 ||
			job.Attempts[2].End != rota.ReasonProofInvalid {
			t.Fatalf("%v, %+v", got, job)
		}
	})
	t.Run("a_past_that_cannot_be_is_refused", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("j")
		b.ok(cancelOp("j"))
		sound := rota.Attempt{Worker: "w", Ended: b.Header.Now()}
		for name, spoil := range map[string]func(*rota.Attempt){
			"life":   func(a *rota.Attempt) { a.Life = 1 },
			"worker": func(a *rota.Attempt) { a.Worker = "a b" },
			"end":    func(a *rota.Attempt) { a.Ended.Clock++ },
			"error":  func(a *rota.Attempt) { a.Error = strings.Repeat("x", limits.MaxErrorBytes+1) },
			"text":   func(a *rota.Attempt) { a.Error = "\xff" },
			"seed":   func(a *rota.Attempt) { a.Decision.Seed = make([]byte, 33) },
		} {
			a := sound
			spoil(&a)
			op := retryOp("j")
			op.GetRetry().Spec, op.GetRetry().Past = entry.SpecOp(jobSpec("j")), PastOp(
				&rota.Job{Attempts: []rota.Attempt{a}})
			if o := b.refuses(rota.KindInvalid, "past", op); o.GetKind() == 0 {
				t.Fatal(name)
			}
		}
		op := retryOp("j")
		op.GetRetry().Spec, op.GetRetry().Past = entry.SpecOp(jobSpec("j")), PastOp(
			&rota.Job{Attempts: []rota.Attempt{sound}})
		op.GetRetry().Past.Attempts = append(op.GetRetry().Past.Attempts, 0)
		b.refuses(rota.KindInvalid, "past", op)
	})
	t.Run("of_a_workflow's_node", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		d := diamond("wf")
		b.upload(d)
		b.ok(d.commit())
		submitted := b.Header.Now()
		id := rota.NodeJobID(d.ID, d.Nodes[0].ID)
		dead(b, id, strings.Repeat("x", 1000))
		for run := range int32(3) {
			b.pass(1_000)
			b.ok(d.retry("", 1+run))
			job, _ := b.View.Job(id)
			if job.Life != run+1 || job.Submitted != submitted || job.Retried != b.Header.Now() ||
				len(job.Attempts) != int(run)+1 {
				t.Fatalf("run %d: %+v", run, job)
			}
			dead(b, id, "again")
		}
		job := b.state(string(id), rota.JobDead)
		if got := lives(job.Attempts); !slices.Equal(got, []string{"0.0", "1.0", "2.0", "3.0"}) ||
			len(job.Attempts[0].Error) != limits.MaxNodeErrorBytes {
			t.Fatalf("%v, %+v", got, job)
		}
	})
}
