package check

import (
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// sameEntry moves the last event into the entry of the event before it.
func (s *story) sameEntry() *story {
	n := len(s.h.Events)
	s.h.Events[n-1].ID = s.h.Events[n-2].ID
	s.h.Events[n-1].ID.Seq++
	return s
}

// by sets the worker of the last event.
func (s *story) by(worker string) *story {
	s.h.Events[len(s.h.Events)-1].Worker = worker
	return s
}

// outlivedStory cancels job x while it runs, with a unique key, a key of concurrency 1 and a worker with room for one
// lease. Its lease outlives it; job y, which waits for all that, is given a lease once it has ended.
func outlivedStory(s *story) {
	s.h.Uniques = []UniqueFacts{{Key: "k", Subs: []UniqueAsked{{"x", "refuse"}, {"y", "refuse"}}}}
	s.h.Keyed = []KeyFacts{{Key: "solo:1", Most: 1, Jobs: []string{"x", "y"}}}
	s.h.Holds("w1-01", 1)
	s.submitted("x", 900).submitted("y", 1_250)
	s.happened("jobEnqueued", "x", 0, "").happened("jobAssigned", "x", 61, "").by("w1-01").happened("leaseAcked", "x",
		61, "")
	s.happened("leaseRenewed", "x", 61, "")
	s.happened("leaseRevoked", "x", 61, "CANCELLED").by("w1-01").happened("jobCancelled", "x", 0,
		"CANCELLED").sameEntry()
	s.happened("jobDelayed", "y", 0, "")
	s.happened("leaseCancelled", "x", 61, "CANCELLED").by("w1-01").happened("jobEnqueued", "y", 0, "").sameEntry()
	s.happened("jobAssigned", "y", 62, "").by("w1-01").happened("jobCompleted", "y", 62, "DONE").by("w1-01")
	s.worked("w1.1", "x", 61, 1_000, 1_300, DidLose, OK).worked("w1.1", "y", 62, 1_400, 1_500, DidComplete, OK)
	for _, job := range []string{"x", "y"} {
		s.find(OpStart, job, 0).Output = job
	}
	s.op(Op{Process: "canceller-1", Func: OpCancel, Job: "x", Invoke: ms(1_200), Return: ms(1_210), Outcome: OK,
		State: "CANCELLED"})
	s.op(Op{Process: "w1.1", Func: OpLost, Job: "x", Token: token(61), Lease: "x-lease-1.61", Invoke: ms(1_250),
		Return: ms(1_250), Kind: "CANCELLED"})
	s.ended("x", "quick", "CANCELLED", "", 61).ended("y", "quick", "COMPLETED", "y/1.62", 62)
	for i := range 2 {
		f := &s.h.Final[len(s.h.Final)-2+i].Attempts[0]
		f.Worker, f.End = "w1-01", []string{"CANCELLED", "DONE"}[i]
	}
	s.again()
}

// event returns the place of the first event of a kind about a job.
func (s *story) event(kind, job string) int {
	return slices.IndexFunc(s.h.Events, func(e SeenEvent) bool { return e.Kind == kind && e.Job == job })
}

// tellsBefore inserts an event, in a separate entry, before another one, which begins an entry.
func (s *story) tellsBefore(e SeenEvent, kind, job string) {
	i := s.event(kind, job)
	s.h.Events = slices.Insert(s.h.Events, i, e)
	for k := range s.h.Events[i:] {
		at := &s.h.Events[i+k].ID
		if at.Index++; k == 0 {
			*at = rota.EventID{Incarnation: 1, Index: s.h.Events[i+1].ID.Index}
		}
	}
	s.again()
}

// given is the event of a lease granted to a worker.
func given(job, lease, worker string) SeenEvent {
	return SeenEvent{Kind: "jobAssigned", Job: job, Lease: leaseKeptOf(lease), Worker: worker, Clock: 1_000_000,
		Sum: 9_000}
}

// saying is a violation with the expected report of the checker of leases.
type saying struct {
	name, want string
	do         func(s *story)
}

// says plants violations one by one.
func says(t *testing.T, all []saying) {
	t.Helper()
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := goodStory()
			p.do(s)
			found := JudgeOnly(s.h, "leases")
			if !slices.ContainsFunc(found, func(a Anomaly) bool { return strings.Contains(a.Text, p.want) }) {
				t.Errorf("no anomaly contains %q: %v", p.want, found)
			}
		})
	}
}

// TestLeasesBite plants leases that outlive their jobs, and whose resources are given away before they ended.
func TestLeasesBite(t *testing.T) {
	t.Parallel()
	with := func(then func(s *story)) func(s *story) {
		return after(outlivedStory, func(s *story) { then(s); s.again() })
	}
	alone := func(s *story) { s.h.Uniques, s.h.Keyed, s.h.Rooms = nil, nil, nil }
	// while gives job z, which shares one thing with x, a lease while that of x lives on.
	while := func(do func(s *story), shares string) func(s *story) {
		return with(func(s *story) {
			do(s)
			worker := "w2-01"
			switch shares {
			case "unique":
				s.h.Uniques = []UniqueFacts{{Key: "k", Subs: []UniqueAsked{{"x", "refuse"}, {"z", "refuse"}}}}
			case "key":
				s.h.Keyed = []KeyFacts{{Key: "solo:1", Most: 1, Jobs: []string{"x", "z"}}}
			case "room":
				worker = "w1-01"
				s.h.Holds(worker, 1)
			}
			s.tellsBefore(given("z", "z-lease-1.60", worker), "leaseCancelled", "x")
		})
	}
	retried := with(func(s *story) {
		alone(s)
		s.tellsBefore(SeenEvent{Kind: "jobDelayed", Job: "x", Clock: 1_000_000, Sum: 9_001}, "leaseCancelled", "x")
		s.tellsBefore(given("x", "x-lease-1.60", "w2-01"), "leaseCancelled", "x")
	})
	scheduled := func(inTurn bool) func(s *story) {
		return while(func(s *story) {
			alone(s)
			s.h.Schedules = []ScheduleFacts{{Name: "tock", EveryMs: 1_000, InTurn: inTurn}}
			for _, job := range []string{"x", "z"} {
				s.h.Events = append([]SeenEvent{{Kind: "scheduleFired", Schedule: "tock", Job: job}}, s.h.Events...)
			}
		}, "")
	}
	says(t, []saying{
		{"its_unique_key_is_anothers",
			"2 leases of unique key k are open, 1 may be: lease x-lease-1.61 of job x is one, which outlived it",
			while(alone, "unique")},
		{"its_concurrency_slot_is_anothers", "2 leases of key solo:1 are open, 1 may be: lease x-lease-1.61",
			while(alone, "key")},
		{"its_schedules_turn_is_anothers", "2 leases of schedule tock are open, 1 may be: lease x-lease-1.61",
			scheduled(true)},
		{"its_workers_room_is_anothers", "2 leases of worker w1-01 are open, 1 may be: lease x-lease-1.61",
			while(alone, "room")},
		{"its_jobs_next_attempt",
			"2 leases of the job are open, 1 may be: lease x-lease-1.61 of job x is one, which outlived it", retried},
		{"ends_twice", "lease x-lease-1.61 was ended before",
			with(func(s *story) { s.happened("leaseCancelled", "x", 61, "CANCELLED") })},
		{"ends_never", "has not ended 10001 ms later", with(func(s *story) {
			i := s.event("leaseCancelled", "x")
			s.h.Events = slices.Delete(s.h.Events, i, i+1)
			s.h.Events[len(s.h.Events)-1].Clock += 5_000 + sweepLate + 1
		})},
		{"was_never_given", "it never had lease x-lease-1.63",
			with(func(s *story) { s.happened("leaseCancelled", "x", 63, "CANCELLED") })},
		{"was_another_jobs", "it never had lease x-lease-1.61",
			with(func(s *story) { s.h.Events[s.event("leaseCancelled", "x")].Job = "y" })},
		{"ends_for_another_reason", "it ends lease x-lease-1.61 for TAKEN_OVER",
			with(func(s *story) { s.h.Events[s.event("leaseCancelled", "x")].Reason = "TAKEN_OVER" })},
		{"ends_as_that_of_a_live_job", "it ends lease x-lease-1.61",
			with(func(s *story) { s.h.Events[s.event("leaseCancelled", "x")].Kind = "leaseExpired" })},
		{"completed_after_its_cancellation", "lease x-lease-1.61 is not its open one",
			with(func(s *story) { s.h.Events[s.event("leaseCancelled", "x")].Kind = "jobCompleted" })},
		{"is_renewed_after_its_job", "lease x-lease-1.61 outlived its job", with(func(s *story) {
			s.tellsBefore(SeenEvent{Kind: "leaseRenewed", Job: "x", Lease: leaseKeptOf("x-lease-1.61"),
				Clock: 1_000_000, Sum: 9_002}, "leaseCancelled", "x")
		})},
		{"is_renewed_though_revoked", "(leaseRenewed) of job c: lease c-lease-1.71 was revoked", with(func(s *story) {
			s.happened("jobEnqueued", "c", 0, "").happened("jobAssigned", "c", 71, "").happened("leaseRevoked", "c", 71,
				"PREEMPTED")
			s.happened("leaseRenewed", "c", 71, "")
		})},
		{"is_acknowledged_after_its_end", "lease x-lease-1.61 was ended by",
			with(func(s *story) { s.happened("leaseAcked", "x", 61, "") })},
		{"is_given_twice", "lease x-lease-1.61 was given before",
			with(func(s *story) { s.happened("jobAssigned", "x", 61, "") })},
		{"is_left_open_without_a_word", "lease x-lease-1.61 is open, and was not revoked",
			with(func(s *story) { s.h.Events[s.event("leaseRevoked", "x")].Kind = "leaseAcked" })},
		{"is_revoked_for_something_else", "lease x-lease-1.61 is open, and was not revoked",
			with(func(s *story) { s.h.Events[s.event("leaseRevoked", "x")].Reason = "PREEMPTED" })},
		{"is_revoked_long_before", "lease x-lease-1.61 is open, and was not revoked", with(func(s *story) {
			e := &s.h.Events[s.event("jobCancelled", "x")]
			e.ID.Index, e.ID.Seq = e.ID.Index+1, 0
		})},
		{"is_open_at_a_completion", "lease y-lease-1.62 is open, and was not revoked",
			with(func(s *story) { s.h.Events[s.event("jobCompleted", "y")].Lease = "" })},
		{"is_open_as_its_job_is_deleted", "(jobDeleted) of job x: its lease x-lease-1.61 is open", with(func(s *story) {
			s.tellsBefore(SeenEvent{Kind: "jobDeleted", Job: "x", Clock: 1_000_000, Sum: 9_003}, "leaseCancelled", "x")
		})},
	})
	bites(t, []plant{
		{"handlers_of_a_unique_key_together", "uniques", with(func(s *story) {
			s.find(OpEnd, "x", 0).Return = ms(1_450)
		})},
		{"handlers_of_a_key_together", "keys", with(func(s *story) { s.find(OpEnd, "x", 0).Return = ms(1_450) })},
		{"completed_after_its_cancellation", "events", with(func(s *story) {
			s.h.Events[s.event("leaseCancelled", "x")].Kind = "jobCompleted"
		})},
		{"completed_after_its_lease", "events", with(func(s *story) { s.happened("jobCompleted", "x", 61, "DONE") })},
		{"completed_and_accepted", "linear", with(func(s *story) {
			s.find(OpLost, "x", 0).Func = "nothing"
			end := s.find(OpEnd, "x", 0)
			end.Did = DidComplete
			report := *end
			report.Func, report.Invoke, report.Return, report.Outcome = OpReport, end.Return, end.Return+ms(3), OK
			s.op(report)
		})},
		{"failed_after_its_cancellation", "events", with(func(s *story) {
			s.happened("jobDead", "x", 0, "PROVIDER_FAIL")
		})},
		{"goes_on_after_its_cancellation", "events", with(func(s *story) { s.happened("jobEnqueued", "x", 0, "") })},
		{"shown_otherwise", "events", with(func(s *story) { s.h.Final[2].Attempts[0].End = "TAKEN_OVER" })},
		{"refused_for_one_that_was_cancelled", "uniques", with(func(s *story) {
			op := s.find(OpSubmit, "y", 0)
			op.Outcome, op.Kind, op.Output = Refused, "CONFLICT", "x"
		})},
	})
	spares(t, []plant{{"beside_the_run_before", "leases", scheduled(false)},
		{"shares_nothing", "leases", while(alone, "")}})
	for _, c := range []string{"leases", "events", "uniques", "keys", "linear", "lost", "overlap", "token",
		"completion", "expiry", "outcomes"} {
		spares(t, []plant{{"outlived_" + c, c, outlivedStory}})
	}
	spares(t, []plant{{"is_open_at_the_end", "leases",
		with(func(s *story) { s.h.Events = s.h.Events[:s.event("leaseCancelled", "x")] })}})
}

// TestLeases_workflow lets the lease of a cancelled workflow's node end after it, also once it runs again.
func TestLeases_workflow(t *testing.T) {
	t.Parallel()
	cancelled := func(s *story) {
		for _, what := range []string{OpFlowSubmit, OpFlowCancel, OpFlowRetry} {
			s.asked("f", what, OK, 100)
		}
		of := func(kind, state string, t uint64, reason string) {
			job := ""
			if kind != "workflowStarted" && kind != "workflowFinished" {
				job = "f/n0"
			}
			s.happened(kind, job, t, reason)
			e := &s.h.Events[len(s.h.Events)-1]
			e.Flow, e.State = "f", state
		}
		of("workflowStarted", "", 0, "")
		of("jobEnqueued", "", 0, "")
		of("jobAssigned", "", 81, "")
		of("leaseRevoked", "", 81, "WORKFLOW_CANCELLED")
		of("jobCancelled", "", 0, "WORKFLOW_CANCELLED")
		s.sameEntry()
		of("workflowFinished", "CANCELLED", 0, "")
		of("workflowStarted", "", 0, "")
		of("jobDelayed", "", 0, "")
		of("leaseCancelled", "", 81, "WORKFLOW_CANCELLED")
		of("jobEnqueued", "", 0, "")
		of("jobAssigned", "", 82, "")
		of("jobCompleted", "", 82, "DONE")
		of("workflowFinished", "COMPLETED", 0, "")
		s.h.FinalFlows = append(s.h.FinalFlows, FinalFlow{"f", "COMPLETED", 2, map[string]string{"n0": "COMPLETED"}})
		s.again()
	}
	late := after(cancelled, func(s *story) { // it ends once the workflow has
		i := s.event("leaseCancelled", "f/n0")
		e := s.h.Events[i]
		s.h.Events = append(slices.Delete(s.h.Events, i, i+1), e)
		s.again()
	})
	spares(t, []plant{{"outlived", "workflows", cancelled}, {"outlived", "leases", cancelled},
		{"late", "workflows", late}})
	bites(t, []plant{
		{"a_node_begins_before", "leases", late},
		{"another_lease_ends_after_it", "workflows", after(cancelled, func(s *story) {
			s.happened("leaseCancelled", "f/n0", 82, "CANCELLED").h.Events[len(s.h.Events)-1].Flow = "f"
			s.again()
		})},
	})
}

// TestLeases_suspended excuses a handler that continues after its worker was suspended, though its lease outlived its
// job.
func TestLeases_suspended(t *testing.T) {
	t.Parallel()
	suspended := func(s *story) {
		outlivedStory(s)
		s.find(OpEnd, "x", 0).Return = ms(1_450)
		s.op(Op{Process: "operator", Func: OpSuspend, Text: "w1-01", Invoke: ms(1_300), Return: ms(1_320), Outcome: OK})
		i := s.event("leaseCancelled", "x")
		e := s.h.Events[i]
		s.h.Events[i].ID.Seq, s.h.Events[i+1].ID.Seq = 1, 2
		e.Kind, e.Job, e.Lease, e.Reason, e.Status = "providerStatusChanged", "", "", "", "SUSPENDED"
		s.h.Events = slices.Insert(s.h.Events, i, e)
		s.again()
	}
	spares(t, []plant{{"keys", "keys", suspended}, {"uniques", "uniques", suspended}, {"leases", "leases", suspended},
		{"events", "events", suspended}})
	bites(t, []plant{{"in_an_entry_before", "keys", after(suspended, func(s *story) {
		s.h.Events[s.event("providerStatusChanged", "")].ID.Index--
	})}, {"another_worker", "keys", after(suspended, func(s *story) {
		s.h.Events[s.event("providerStatusChanged", "")].Worker = "w2-01"
	})}})
}
