package check

import (
	"slices"
	"testing"

	"github.com/rotasched/rota"
)

// told adds a follower that received other events than those that happened.
func told(change func(events []SeenEvent) []SeenEvent) func(s *story) {
	return func(s *story) { s.follows(change(slices.Clone(s.h.Events))) }
}

func TestEventsBite(t *testing.T) {
	t.Parallel()
	bites(t, []plant{
		{"gap", "events", told(func(e []SeenEvent) []SeenEvent { return slices.Delete(e, 4, 6) })},
		{"gap_at_the_beginning", "events", told(func(e []SeenEvent) []SeenEvent { return e[1:] })},
		{"repeat", "events", told(func(e []SeenEvent) []SeenEvent { return slices.Insert(e, 4, e[3]) })},
		{"begun_anew", "events", told(func(e []SeenEvent) []SeenEvent { return append(e, e...) })},
		{"swapped", "events", told(func(e []SeenEvent) []SeenEvent { e[4], e[5] = e[5], e[4]; return e })},
		{"another_field", "events", told(func(e []SeenEvent) []SeenEvent { e[4].Sum++; return e })},
		{"invented", "events", told(func(e []SeenEvent) []SeenEvent { return append(e, SeenEvent{Kind: "drained"}) })},
		{"nothing", "events", told(func([]SeenEvent) []SeenEvent { return nil })},
		{"cut_off", "events", func(s *story) { s.h.Streams[3].Error = "OUT_OF_RANGE" }},
		{"a_node_differs", "events", func(s *story) {
			events := slices.Clone(s.h.Events)
			events[2].Sum++
			s.h.Streams[1] = Against("n2", true, s.h.Events, Briefs(events))
		}},
		{"a_node_lacks_the_oldest", "events", func(s *story) {
			s.h.Streams[1] = Against("n2", true, s.h.Events, Briefs(s.h.Events[2:]))
		}},
		{"a_node_tells_less_later", "events", func(s *story) {
			s.h.Streams[2] = Against("n3", true, s.h.Events, Briefs(s.h.Events[:5]))
		}},
		{"a_node_is_not_asked", "events", func(s *story) { s.h.Streams = s.h.Streams[1:] }},
		{"ids_shrink", "events", func(s *story) {
			s.h.Events[4].ID, s.h.Events[5].ID = s.h.Events[5].ID, s.h.Events[4].ID
		}}, {"entry_begins_late", "events", func(s *story) { s.h.Events[4].ID.Seq = 1 }},
		{"clock_falls", "events", func(s *story) { s.h.Events[4].Clock-- }},
		{"state_leaps", "events", func(s *story) { s.h.Events[4].Prior = "ff" }},
		{"states_of_an_entry_differ", "events", func(s *story) {
			s.h.Events[4].ID, s.h.Events[4].Post = s.h.Events[3].ID, "ff"
			s.h.Events[4].ID.Seq++
		}},
		{"contradicts_itself", "events", func(s *story) { s.h.Events[4].Wrong = "payload_hash" }},
		{"parent_of_another_job", "events", func(s *story) { s.h.Events[4].Parent = s.h.Events[1].ID }},
		{"parent_from_the_future", "events", func(s *story) { s.h.Events[4].Parent = s.h.Events[7].ID }},
	})
	spares(t, []plant{
		{"stopped_before_the_end", "events", told(func(e []SeenEvent) []SeenEvent { return e[:7] })},
		{"a_node_was_asked_before", "events", func(s *story) {
			s.h.Streams[0] = Against("n1", true, s.h.Events, Briefs(s.h.Events[:5]))
		}},
		{"parent", "events", func(s *story) { s.h.Events[4].Parent = s.h.Events[2].ID }},
	})
}

// edit changes the events in all nodes' streams.
func edit(change func(events []SeenEvent) []SeenEvent) func(s *story) {
	return func(s *story) {
		s.h.Events = change(s.h.Events)
		for i := range s.h.Streams {
			s.h.Streams[i] = Against(s.h.Streams[i].Name, s.h.Streams[i].Whole, s.h.Events, Briefs(s.h.Events))
		}
	}
}

func TestEventsOfJobsBite(t *testing.T) {
	t.Parallel()
	with := func(kind, job string, n uint64, reason string) func(s *story) {
		return func(s *story) {
			s.happened(kind, job, n, reason)
			edit(func(e []SeenEvent) []SeenEvent { return e })(s)
		}
	}
	bites(t, []plant{
		{"acknowledged_and_unreported", "events", func(s *story) { s.submitted("c", 900) }},
		{"refused_and_told", "events", func(s *story) { s.find(OpSubmit, "b", 0).Outcome = Refused }},
		{"not_enqueued", "events", edit(func(e []SeenEvent) []SeenEvent { return e[1:] })},
		{"completed_twice", "events", with("jobCompleted", "a", 4, "DONE")},
		{"no_end", "events", edit(func(e []SeenEvent) []SeenEvent { return e[:9] })},
		{"another_end", "events", edit(func(e []SeenEvent) []SeenEvent { e[9].Kind = "jobDead"; return e })},
		{"goes_on_after_the_end", "events", with("jobEnqueued", "a", 0, "")},
		{"lease_from_nowhere", "events", edit(func(e []SeenEvent) []SeenEvent { return slices.Delete(e, 6, 7) })},
		{"completed_by_another_lease", "events", edit(func(e []SeenEvent) []SeenEvent { e[7].Lease = "x"; return e })},
		{"another_worker", "events", func(s *story) { s.h.Final[0].Attempts[1].Worker = "w9" }},
		{"another_reason", "events", func(s *story) { s.h.Final[0].Attempts[0].End = "LEASE_EXPIRED" }},
		{"cancelled_for_another_reason", "events", byHandler("PROVIDER_FAIL")},
		{"lease_without_end", "events", func(s *story) {
			s.h.Final[1].Attempts[0].End = "LEASE_EXPIRED"
			edit(func(e []SeenEvent) []SeenEvent { return slices.Delete(e, 8, 9) })(s)
		}},
		{"suspended_by_nobody", "events", edit(func(e []SeenEvent) []SeenEvent {
			e[4].Reason, e[4].Worker = "WORKER_SUSPENDED", "w1-id"
			return e
		})},
	})
	spares(t, []plant{
		{"dropped_after_the_end", "events", with("assignmentDropped", "a", 0, "")},
		{"cancelled_by_its_handler", "events", byHandler("CANCELLED_BY_HANDLER")},
		{"unknown_and_unreported", "events", func(s *story) {
			s.submitted("c", 900).find(OpSubmit, "c", 0).Outcome = Unknown
		}},
	})
}

// byHandler makes a job's own handler cancel it, which ends its lease with the same event, and the final state show
// that end of the attempt.
func byHandler(shown string) func(s *story) {
	return func(s *story) {
		s.submitted("c", 900).worked("w1.1", "c", 5, 1_000, 1_100, DidLose, OK).ended("c", "quick", "CANCELLED", "", 5)
		s.h.Final[len(s.h.Final)-1].Attempts[0].End = shown
		s.happened("jobEnqueued", "c", 0, "").happened("jobAssigned", "c", 5, "").happened("jobCancelled", "c", 5,
			"CANCELLED_BY_HANDLER")
		edit(func(e []SeenEvent) []SeenEvent { return e })(s)
	}
}

// TestSuspensionExcuses only leases that the suspension ended, and only from then on.
func TestSuspensionExcuses(t *testing.T) {
	t.Parallel()
	suspended := func(at int64, reason string) func(s *story) {
		return func(s *story) {
			s.submitted("c", 900).worked("w1.1", "c", 5, 1_000, 9_000, DidLose, OK)
			s.worked("w2.1", "c", 6, 4_000, 4_500, DidComplete, OK).ended("c", "quick", "COMPLETED", "c/1.6", 5, 6)
			s.op(Op{Process: "operator", Func: OpSuspend, Text: "w1-id", Invoke: ms(at), Return: ms(at + 20),
				Outcome: OK})
			s.happened("leaseCancelled", "c", 5, reason).h.Events[len(s.h.Events)-1].Worker = "w1-id"
		}
	}
	late := func(at ...int64) func(s *story) {
		return func(s *story) {
			s.submitted("c", 900).worked("w2.1", "c", 6, 4_000, 4_500, DidComplete, OK)
			s.worked("w1.1", "c", 5, 4_100, 9_000, DidLose, OK).ended("c", "quick", "COMPLETED", "c/1.6", 5, 6)
			for _, at := range at {
				s.op(Op{Process: "operator", Func: OpSuspend, Text: "w1-id", Invoke: ms(at), Return: ms(at + 20),
					Outcome: OK})
			}
			s.happened("leaseCancelled", "c", 5, "WORKER_SUSPENDED").h.Events[len(s.h.Events)-1].Worker = "w1-id"
		}
	}
	spares(t, []plant{
		{"open_when_suspended", "overlap", suspended(3_900, "WORKER_SUSPENDED")},
		{"heard_of_it_late", "overlap", late(3_900)}, {"heard_of_it_late", "token", late(3_900)},
		{"heard_of_it_late_and_suspended_again", "overlap", late(3_900, 20_000)},
		{"heard_of_it_late_and_suspended_again", "token", late(3_900, 20_000)},
	})
	bites(t, []plant{
		{"lost_otherwise", "overlap", suspended(3_900, "LEASE_EXPIRED")},
		{"suspended_too_late", "overlap", suspended(4_200, "WORKER_SUSPENDED")},
		{"late_and_suspended_later_still", "overlap", late(4_050)},
		{"late_and_suspended_later_still", "token", late(4_050)},
		{"refused", "overlap", func(s *story) {
			suspended(3_900, "WORKER_SUSPENDED")(s)
			for i := range s.h.Ops {
				if s.h.Ops[i].Func == OpSuspend {
					s.h.Ops[i].Outcome = Refused
				}
			}
		}},
		{"held_again_after", "overlap", func(s *story) {
			suspended(900, "WORKER_SUSPENDED")(s) // the first lease; the next one is judged
			s.submitted("d", 900).worked("w1.1", "d", 7, 2_000, 9_000, DidLose, OK)
			s.worked("w2.1", "d", 8, 4_000, 4_500, DidComplete, OK).ended("d", "quick", "COMPLETED", "d/1.8", 7, 8)
		}},
	})
}

func TestHistoryBites(t *testing.T) {
	t.Parallel()
	bites(t, []plant{
		{"job_missing", "history", func(s *story) { s.h.Shown[1].Listed-- }},
		{"shown_otherwise", "history", func(s *story) {
			s.h.Shown[1].Differs = Differences("shows", map[string]string{"a": "1"}, map[string]string{"a": "2"})
		}},
		{"one_more", "history", func(s *story) {
			s.h.Shown[1].Differs = Differences("lists", map[string]string{"a": "1"},
				map[string]string{"a": "1", "b": "2"})
		}},
		{"one_less", "history", func(s *story) {
			s.h.Shown[1].Differs = Differences("lists", map[string]string{"a": "1"}, nil)
		}},
		{"not_answered", "history", func(s *story) { s.h.Shown[2].Error = "UNAVAILABLE" }},
		{"not_asked", "history", func(s *story) { s.h.Shown = s.h.Shown[:2] }},
	})
}

func TestAuditBites(t *testing.T) {
	t.Parallel()
	bites(t, []plant{
		{"difference", "audit", func(s *story) { s.h.Audits[1].Report.Difference = &rota.AuditDifference{Index: 7} }},
		{"unproved", "audit", func(s *story) { s.h.Audits[1].Report.Proved-- }},
		{"unreadable", "audit", func(s *story) { s.h.Audits[1] = AuditOf{Node: "n2", Error: "the log is damaged"} }},
		{"not_done", "audit", func(s *story) { s.h.Audits = s.h.Audits[:2] }},
	})
	spares(t, []plant{{"nothing_kept", "audit", func(s *story) {
		s.h.Audits[1] = AuditOf{Node: "n2", Error: "exit status 4: " + unkept}
	}}})
}

// TestEventSeen_hidden marks an event whose hashes were hidden from a reader that may read everything.
func TestEventSeen_hidden(t *testing.T) {
	t.Parallel()
	e := rota.ServedEvent{Event: rota.Event{Kind: rota.EventJobEnqueued, Job: "a"}}
	if s := EventSeen(&e); s.Wrong == "" {
		t.Error("an event without the hash of the state after it is accepted as whole")
	}
	e.Post.Lo = 1
	if s := EventSeen(&e); s.Wrong != "" { // the state before the first entry is empty, and so is its hash
		t.Error(s.Wrong)
	}
}
