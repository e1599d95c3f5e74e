package check

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

func TestLinearBites(t *testing.T) {
	t.Parallel()
	bites(t, []plant{
		{"stale_read_after_submit", "linear", func(s *story) {
			s.op(Op{Process: "reader-1", Func: OpGet, Job: "a", Invoke: ms(106), Return: ms(110), Outcome: Refused,
				Kind: "NOT_FOUND"})
		}},
		{"stale_read_after_completion", "linear", func(s *story) { s.read("a", "RUNNING", 4, 505, 508) }},
		{"read_goes_back_to_an_older_lease", "linear", func(s *story) { s.read("a", "RUNNING", 1, 450, 460) }},
		{"both_holders_complete", "linear", func(s *story) { s.worked("w1.1", "a", 3, 350, 390, DidComplete, OK) }},
		{"made_twice", "linear", func(s *story) { s.submitted("a", 600) }},
		{"done_without_a_lease", "linear", func(s *story) { s.find(OpStart, "a", 1).Func = "forgotten" }},
		{"stale_completion_accepted", "linear", func(s *story) {
			s.find(OpReport, "a", 0).Did, s.find(OpReport, "a", 0).Invoke = DidComplete, ms(450)
			s.find(OpReport, "a", 0).Return = ms(455)
		}},
		{"completion_of_a_lease_given_back_accepted", "linear", func(s *story) {
			s.submitted("c", 900).worked("w1.1", "c", 5, 1_000, 1_100, DidFail, OK)
			s.op(Op{Process: "h", Func: OpReport, Did: DidComplete, Job: "c", Token: token(5), Invoke: ms(1_200),
				Return: ms(1_210), Outcome: OK})
		}},
		{"cancelled_after_the_end", "linear", func(s *story) { s.cancelled("a", 610, OK, "") }},
		{"cancel_refused_though_live", "linear", func(s *story) {
			s.submitted("c", 100).cancelled("c", 200, Refused, "CONFLICT").read("c", "QUEUED", 0, 300, 310)
		}},
		{"cancel_of_what_was_never_there", "linear", func(s *story) {
			s.cancelled("c", 50, OK, "").submitted("c", 100)
		}},
		{"lives_again_unasked", "linear", func(s *story) { s.gone("c").read("c", "QUEUED", 0, 2_000, 2_010) }},
		{"leased_again_unasked", "linear", func(s *story) {
			s.gone("c").worked("w2.1", "c", 6, 2_000, 2_100, DidComplete, OK)
		}},
		{"leased_again_after_its_handler_cancelled_it", "linear", func(s *story) {
			s.submitted("c", 900).worked("w1.1", "c", 5, 1_000, 1_100, DidCancel, OK).worked("w2.1", "c", 6, 2_000,
				2_100, DidComplete, OK)
		}},
		{"over_after_a_snooze", "linear", func(s *story) {
			s.submitted("c", 900).worked("w1.1", "c", 5, 1_000, 1_100, DidSnooze, OK).read("c", "CANCELLED", 0, 1_150,
				1_160)
		}},
		{"retried_though_completed", "linear", func(s *story) {
			s.retried("a", 600, OK, "").read("a", "QUEUED", 0, 700, 710)
		}},
		{"retry_refused_though_dead", "linear", func(s *story) {
			s.gone("c").retried("c", 2_000, Refused, "CONFLICT")
		}},
		{"retry_refused_as_unknown", "linear", func(s *story) {
			s.gone("c").retried("c", 2_000, Refused, "NOT_FOUND")
		}},
		{"dead_after_a_retry", "linear", func(s *story) {
			s.gone("c").retried("c", 2_000, OK, "").read("c", "DEAD", 0, 2_100, 2_110)
		}},
		{"expired_without_a_time_to_live", "linear", func(s *story) {
			s.submitted("c", 100).read("c", "EXPIRED", 0, 200, 210)
		}},
		{"lives_after_it_expired", "linear", func(s *story) {
			s.lasting("c", 50).read("c", "EXPIRED", 0, 200, 210).read("c", "QUEUED", 0, 300, 310)
		}},
		{"node_revived_unasked", "linear", func(s *story) {
			s.asked("f", OpFlowSubmit, OK, 100).worked("w1.1", string(rota.NodeJobID("f", "n0")), 5, 200, 300,
				DidNoRetry, OK)
			s.worked("w1.1", string(rota.NodeJobID("f", "n0")), 6, 400, 500, DidComplete, OK)
		}},
		{"node_completed_twice", "linear", func(s *story) {
			s.asked("f", OpFlowSubmit, OK, 100).asked("f", OpFlowRetry, OK, 350).worked("w1.1",
				string(rota.NodeJobID("f", "n0")), 5, 200, 300, DidComplete, OK)
			s.worked("w1.1", string(rota.NodeJobID("f", "n0")), 6, 400, 500, DidComplete, OK)
		}},
		{"failed_after_the_end", "linear", func(s *story) { s.worked("w1.1", "a", 3, 530, 540, DidFail, OK) }},
		{"cancelled_and_completed", "linear", func(s *story) {
			s.op(Op{Process: "c", Func: OpCancel, Job: "a", Invoke: ms(510), Return: ms(512), Outcome: OK,
				State: "CANCELLED"})
		}},
		{"completed_after_cancel", "linear", func(s *story) { s.worked("w1.1", "b", 9, 650, 660, DidComplete, OK) }},
		{"another_outcome_is_shown", "linear", func(s *story) { s.read("a", "COMPLETED", 1, 600, 610) }},
		{"dead_without_a_reason", "linear", func(s *story) { s.read("b", "DEAD", 0, 720, 730) }},
		{"refused_though_known", "linear", func(s *story) {
			s.submitted("a", 600).find(OpSubmit, "a", 1).Outcome = Refused
			s.find(OpSubmit, "a", 1).Kind = "EXHAUSTED"
		}},
		{"own_completion_refused", "linear", func(s *story) {
			s.worked("w2.1", "a", 4, 400, 550, DidComplete, Refused)
		}},
	})
}

// TestLinearSpares: a history that can be explained is not a violation.
func TestLinearSpares(t *testing.T) {
	t.Parallel()
	spares(t, []plant{
		{"unknown_submit_seen_later", "linear", func(s *story) {
			s.submitted("c", 100)
			op := s.find(OpSubmit, "c", 0)
			op.Outcome, op.Return = Unknown, never
			s.op(Op{Process: "r", Func: OpGet, Job: "c", Invoke: ms(200), Return: ms(210), Outcome: Refused,
				Kind: "NOT_FOUND"})
			s.read("c", "QUEUED", 0, 5_000, 5_010)
		}},
		{"refused_then_accepted", "linear", func(s *story) {
			s.submitted("c", 100).submitted("c", 200).read("c", "QUEUED", 0, 300, 310)
			op := s.find(OpSubmit, "c", 0)
			op.Outcome, op.Kind = Refused, "MODE"
		}},
		{"own_first_try", "linear", func(s *story) { s.find(OpSubmit, "a", 0).Existed = true }},
		{"lease_ran_out", "linear", func(s *story) {
			s.submitted("c", 900).worked("w1.1", "c", 5, 1_000, 9_000, DidComplete, Refused)
			s.read("c", "QUEUED", 0, 7_000, 7_010)
			s.worked("w2.1", "c", 6, 9_100, 9_500, DidComplete, OK)
		}},
		{"unknown_completion_took", "linear", func(s *story) {
			op := s.find(OpReport, "a", 1)
			op.Outcome, op.Return = Unknown, never
		}},
		{"read_overlaps_completion", "linear", func(s *story) { s.read("a", "RUNNING", 4, 499, 520) }},
		{"retry_with_delay", "linear", func(s *story) {
			s.submitted("c", 900).worked("w1.1", "c", 5, 1_000, 1_100, DidFail, OK).read("c", "DELAYED", 0, 1_150,
				1_160)
			s.worked("w1.1", "c", 6, 1_400, 1_500, DidComplete, OK)
		}},
		{"retried_after_its_end", "linear", func(s *story) {
			s.gone("c").retried("c", 2_000, OK, "").retried("c", 2_100, OK, "")
			s.worked("w2.1", "c", 6, 2_200, 2_300, DidComplete, OK)
		}},
		{"retried_after_a_cancel", "linear", func(s *story) {
			s.submitted("c", 900).cancelled("c", 950, OK, "").retried("c", 1_000, OK, "").read("c", "QUEUED", 0, 1_100,
				1_110)
			s.cancelled("c", 1_200, OK, "").read("c", "CANCELLED", 0, 1_300, 1_310)
		}},
		{"retry_unknown", "linear", func(s *story) {
			s.gone("c").retried("c", 2_000, Unknown, "").read("c", "DEAD", 0, 2_100, 2_110).read("c", "QUEUED", 0,
				9_000, 9_010)
		}},
		{"expired_in_its_time", "linear", func(s *story) { s.lasting("c", 50).read("c", "EXPIRED", 0, 200, 210) }},
		{"declined", "linear", func(s *story) {
			s.submitted("c", 900).worked("w1.1", "c", 5, 1_000, 1_100, DidDecline, OK).read("c", "QUEUED", 0, 1_150,
				1_160)
			s.worked("w1.1", "c", 6, 1_400, 1_500, DidComplete, OK)
		}},
		{"snoozed", "linear", func(s *story) {
			s.submitted("c", 900).worked("w1.1", "c", 5, 1_000, 1_100, DidSnooze, OK).read("c", "DELAYED", 0, 1_150,
				1_160)
			s.worked("w1.1", "c", 6, 1_400, 1_500, DidComplete, OK)
		}},
		{"cancelled_by_its_handler", "linear", func(s *story) {
			s.submitted("c", 900).worked("w1.1", "c", 5, 1_000, 1_100, DidCancel, OK).read("c", "CANCELLED", 0, 1_150,
				1_160)
		}},
		{"node_revived", "linear", func(s *story) {
			s.asked("f", OpFlowSubmit, OK, 100).worked("w1.1", string(rota.NodeJobID("f", "n0")), 5, 200, 300,
				DidNoRetry, OK)
			s.asked("f", OpFlowRetry, Unknown, 350).worked("w1.1", string(rota.NodeJobID("f", "n0")), 6, 400, 500,
				DidComplete, OK)
		}},
		{"last_attempt_ran_out", "linear", func(s *story) {
			s.submitted("c", 900).worked("w1.1", "c", 5, 1_000, 9_000, DidLose, OK)
			s.read("c", "DEAD", 0, 9_500, 9_600)
			s.ended("c", "flaky", "DEAD", "", 5)
		}},
	})
}

// cancelled adds a call that cancels a job, retried one that retries a job.
func (s *story) cancelled(job string, at int64, o Outcome, kind string) *story {
	return s.call(OpCancel, job, at, o, kind)
}

func (s *story) retried(job string, at int64, o Outcome, kind string) *story {
	return s.call(opRetry, job, at, o, kind)
}

func (s *story) call(what, job string, at int64, o Outcome, kind string) *story {
	op := Op{Process: "c", Func: what, Job: job, Invoke: ms(at), Return: ms(at + 5), Outcome: o, Kind: kind}
	if o == Unknown {
		op.Return = never
	}
	return s.op(op)
}

// gone makes a job fail for good.
func (s *story) gone(job string) *story {
	return s.patient().submitted(job, 900).worked("w1.1", job, 5, 1_000, 1_100, DidNoRetry, OK).read(job, "DEAD", 0,
		1_200, 1_210)
}

// patient puts jobs that the end does not show into a queue with many attempts.
func (s *story) patient() *story {
	s.h.Queues[""] = QueueFacts{LeaseMs: 5_000, AttemptMax: 1_000}
	return s
}

// lasting gives a job a time to live.
func (s *story) lasting(job string, ttl int64) *story {
	s.submitted(job, 100).find(OpSubmit, job, 0).TTLMs = ttl
	return s
}

// asked adds an operation on a workflow of one node.
func (s *story) asked(id, what string, o Outcome, at int64) *story {
	if what == OpFlowSubmit {
		s.h.Flows = append(s.h.Flows, FlowFacts{ID: id, OnFailure: "continue", Nodes: []NodeFacts{{ID: "n0"}}})
	}
	s.call(what, "", at, o, "").h.Ops[len(s.h.Ops)-1].Flow = id
	return s.patient()
}

// crowd returns many jobs with many overlapping operations.
func crowd(jobs int) *story {
	s := goodStory()
	for j := range jobs {
		id := fmt.Sprintf("j%d", j)
		s.submitted(id, 100)
		for n := range 8 {
			at := int64(200 + 100*n)
			s.worked("w1.1", id, uint64(1000*j+n+10), at, at+50, DidFail, OK).read(id, "DELAYED", 0, at+40, at+90)
			s.op(Op{Process: "c", Func: OpCancel, Job: id, Invoke: ms(at), Return: never, Outcome: Unknown})
		}
	}
	return s
}

// TestLinearIsQuick: 200,000 overlapping operations are all judged.
func TestLinearIsQuick(t *testing.T) {
	t.Parallel()
	v := newView(crowd(200_000 / 25).h)
	if found := checkLinear(v); len(found) > 0 {
		t.Fatal(found[0].Text)
	}
	if len(v.undecided) > 0 || v.figures["linear_operations"].(int) < 200_000 {
		t.Errorf("undecided %v, figures %v", v.undecided, v.figures)
	}
	t.Logf("%v", v.figures)
}

// TestLinearUndecided: a check that takes too long never passes as good.
func TestLinearUndecided(t *testing.T) {
	t.Parallel()
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		v := newView(goodStory().h)
		judgeLinear(v, linearLimits{job: time.Second, all: 0})
		if len(v.undecided) != 1 || v.figures["linear_jobs"] != 0 {
			t.Errorf("undecided %v, figures %v", v.undecided, v.figures)
		}
	})
	t.Run("job", func(t *testing.T) {
		t.Parallel()
		s := goodStory().patient().submitted("c", 100)
		for n := range uint64(40) { // 2⁴⁰ orders, none of which explains the read that follows
			s.op(Op{Process: "w", Func: OpReport, Did: DidComplete, Job: "c", Token: token(100 + n), Invoke: ms(200),
				Return:  never,
				Outcome: Unknown})
		}
		v := newView(s.read("c", "DEAD", 0, 300, 310).h)
		found := judgeLinear(v, linearLimits{job: 50 * time.Millisecond, all: time.Hour})
		// On a busy machine 50 ms may be too little for the other job, too.
		if len(found) > 0 || len(v.undecided) != 1 || !slices.Contains(strings.Fields(v.undecided[0]), "c") {
			t.Errorf("found %v, undecided %v", found, v.undecided)
		}
	})
}

// TestLinearDraws: a violation is drawn next to the report, and linked from it.
func TestLinearDraws(t *testing.T) {
	t.Parallel()
	s := goodStory().worked("w1.1", "a", 3, 350, 390, DidComplete, OK)
	verdict := Judge(s.h)
	path := filepath.Join(t.TempDir(), "report.html")
	if err := WriteReport(path, s.h, verdict); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	drawing, err := os.ReadFile(filepath.Join(filepath.Dir(path), "linear-1.html"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), `href="linear-1.html"`) ||
		!strings.Contains(string(drawing), "report complete ok") {
		t.Errorf("the report has %d bytes without the link, or the drawing %d without the operation", len(page),
			len(drawing))
	}
}
