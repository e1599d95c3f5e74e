package main

import (
	"fmt"
	"testing"
)

func TestLinearBites(t *testing.T) {
	t.Parallel()
	bites(t, []plant{
		{"stale_read_after_submit", "linear", func(s *story) {
			s.op(Op{Process: "reader-1", Func: opGet, Job: "a", Invoke: ms(106), Return: ms(110), Outcome: Refused,
				Kind: "NOT_FOUND"})
		}},
		{"stale_read_after_completion", "linear", func(s *story) { s.read("a", "RUNNING", 4, 505, 508) }},
		{"read_goes_back_to_an_older_lease", "linear", func(s *story) { s.read("a", "RUNNING", 1, 450, 460) }},
		{"both_holders_complete", "linear", func(s *story) { s.worked("w1.1", "a", 3, 350, 390, didComplete, OK) }},
		{"made_twice", "linear", func(s *story) { s.submitted("a", 600) }},
		{"done_without_a_lease", "linear", func(s *story) { s.find(opStart, "a", 1).Func = "forgotten" }},
		{"failed_after_the_end", "linear", func(s *story) { s.worked("w1.1", "a", 3, 530, 540, didFail, OK) }},
		{"cancelled_and_completed", "linear", func(s *story) {
			s.op(Op{Process: "c", Func: opCancel, Job: "a", Invoke: ms(510), Return: ms(512), Outcome: OK,
				State: "CANCELLED"})
		}},
		{"completed_after_cancel", "linear", func(s *story) { s.worked("w1.1", "b", 9, 650, 660, didComplete, OK) }},
		{"another_outcome_is_shown", "linear", func(s *story) { s.read("a", "COMPLETED", 1, 600, 610) }},
		{"dead_without_a_reason", "linear", func(s *story) { s.read("b", "DEAD", 0, 720, 730) }},
		{"refused_though_known", "linear", func(s *story) {
			s.submitted("a", 600).find(opSubmit, "a", 1).Outcome = Refused
			s.find(opSubmit, "a", 1).Kind = "EXHAUSTED"
		}},
		{"own_completion_refused", "linear", func(s *story) {
			s.worked("w2.1", "a", 4, 400, 550, didComplete, Refused)
		}},
	})
}

// TestLinearSpares: what may have been so is no violation.
func TestLinearSpares(t *testing.T) {
	t.Parallel()
	spares(t, []plant{
		{"unknown_submit_seen_later", "linear", func(s *story) {
			s.submitted("c", 100)
			op := s.find(opSubmit, "c", 0)
			op.Outcome, op.Return = Unknown, never
			s.op(Op{Process: "r", Func: opGet, Job: "c", Invoke: ms(200), Return: ms(210), Outcome: Refused,
				Kind: "NOT_FOUND"})
			s.read("c", "QUEUED", 0, 5_000, 5_010)
		}},
		{"refused_then_accepted", "linear", func(s *story) {
			s.submitted("c", 100).submitted("c", 200).read("c", "QUEUED", 0, 300, 310)
			op := s.find(opSubmit, "c", 0)
			op.Outcome, op.Kind = Refused, "MODE"
		}},
		{"own_first_try", "linear", func(s *story) { s.find(opSubmit, "a", 0).Existed = true }},
		{"lease_ran_out", "linear", func(s *story) {
			s.submitted("c", 900).worked("w1.1", "c", 5, 1_000, 9_000, didComplete, Refused)
			s.read("c", "QUEUED", 0, 7_000, 7_010)
			s.worked("w2.1", "c", 6, 9_100, 9_500, didComplete, OK)
		}},
		{"unknown_completion_took", "linear", func(s *story) {
			op := s.find(opReport, "a", 1)
			op.Outcome, op.Return = Unknown, never
		}},
		{"read_overlaps_completion", "linear", func(s *story) { s.read("a", "RUNNING", 4, 499, 520) }},
		{"last_attempt_ran_out", "linear", func(s *story) {
			s.submitted("c", 900).worked("w1.1", "c", 5, 1_000, 9_000, didLose, OK)
			s.read("c", "DEAD", 0, 9_500, 9_600)
			s.ended("c", "flaky", "DEAD", "", 5)
		}},
	})
}

// TestLinearIsQuick: many jobs with many overlapping operations are judged in
// bounded steps.
func TestLinearIsQuick(t *testing.T) {
	t.Parallel()
	s := goodStory()
	for j := range 300 {
		id := fmt.Sprintf("j%d", j)
		s.submitted(id, 100)
		for n := range 8 {
			at := int64(200 + 100*n)
			s.worked("w1.1", id, uint64(1000*j+n+10), at, at+50, didFail, OK).read(id, "DELAYED", 0, at+40, at+90)
			s.op(Op{Process: "c", Func: opCancel, Job: id, Invoke: ms(at), Return: never, Outcome: Unknown})
		}
	}
	v := newView(s.h)
	if found := checkLinear(v); len(found) > 0 {
		t.Fatal(found[0].Text)
	}
	if len(v.undecided) > 0 || v.linearSteps > 1_000_000 {
		t.Errorf("%d steps, undecided %v", v.linearSteps, v.undecided)
	}
}
