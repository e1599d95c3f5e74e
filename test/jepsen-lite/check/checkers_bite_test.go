package check

import (
	"testing"
)

func TestLostBites(t *testing.T) {
	t.Parallel()
	bites(t, []plant{
		{"acknowledged_and_gone", "lost", func(s *story) { s.submitted("c", 900) }},
		{"invented", "lost", func(s *story) { s.ended("ghost", "quick", "QUEUED", "") }},
		{"refused_and_there", "lost", func(s *story) { s.find(OpSubmit, "b", 0).Outcome = Refused }},
		{"completed_by_nobody", "lost", func(s *story) {
			s.submitted("c", 900).ended("c", "quick", "COMPLETED", "c/1.9")
		}}, {"another_output", "lost", func(s *story) { s.h.Final[0].Output = "a/1.3" }},
		{"a_lie_after_an_answer", "lost", lied("other after ok")},
		{"own_write_unread", "lost", func(s *story) {
			s.op(Op{Func: OpGetMin, Job: "a", Invoke: ms(200), Return: ms(210), Outcome: Refused, Kind: "NOT_FOUND",
				Index: 7})
		}},
	})
	spares(t, []plant{{"a_lie_that_came_first", "lost", lied(OtherAfterUnknown)}, {"unknown_and_gone", "lost", func(s *story) {
		s.submitted("c", 900).find(OpSubmit, "c", 0).Outcome = Unknown
	}}})
}

func TestOverlapBites(t *testing.T) {
	t.Parallel()
	both := func(s *story) {
		s.submitted("c", 900).worked("w1.1", "c", 5, 1_000, 9_000, DidLose, OK)
		s.worked("w2.1", "c", 6, 8_900, 9_500, DidComplete, OK).ended("c", "quick", "COMPLETED", "c/1.6", 5, 6)
	}
	bites(t, []plant{
		{"two_at_once", "overlap", both},
		{"within_a_longer_one", "overlap", func(s *story) {
			s.submitted("c", 900).worked("w1.1", "c", 5, 1_000, 9_000, DidComplete, Refused)
			s.worked("w2.1", "c", 6, 2_000, 2_100, DidFail, OK).worked("w2.1", "c", 7, 8_000, 8_100, DidComplete, OK)
			s.ended("c", "quick", "COMPLETED", "c/1.7", 5, 6, 7)
		}},
		{"goes_on_long_after_a_pause", "overlap", func(s *story) {
			both(s)
			s.h.Changes = append(s.h.Changes, Change{ms(2_000), "w1", IsPaused}, Change{ms(7_000), "w1", IsUp})
		}},
	})
	spares(t, []plant{
		{"paused_meanwhile", "overlap", func(s *story) {
			both(s)
			s.h.Changes = append(s.h.Changes, Change{ms(2_000), "w1", IsPaused}, Change{ms(8_950), "w1", IsUp})
		}},
		{"killed_before", "overlap", func(s *story) {
			both(s)
			s.find(OpEnd, "c", 0).Func = "cut off"
			s.h.Changes = append(s.h.Changes, Change{ms(2_000), "w1", IsDown})
		}},
	})
}

func TestTokenBites(t *testing.T) {
	t.Parallel()
	bites(t, []plant{
		{"shrinks", "token", func(s *story) {
			s.submitted("c", 900).worked("w1.1", "c", 9, 1_000, 1_100, DidFail, OK)
			s.worked("w2.1", "c", 8, 1_200, 1_300, DidComplete, OK).ended("c", "quick", "COMPLETED", "c/1.8")
		}},
		{"shrinks_at_the_end", "token", func(s *story) { s.ended("c", "quick", "DEAD", "", 9, 8) }},
		{"given_twice", "token", func(s *story) { s.find(OpStart, "a", 0).Token = token(2) }},
	})
}

func TestCompletionBites(t *testing.T) {
	t.Parallel()
	bites(t, []plant{
		{"two_accepted", "completion", func(s *story) {
			s.worked("w1.1", "a", 3, 350, 390, DidComplete, OK)
		}},
		{"does_not_stand", "completion", func(s *story) { s.h.Final[0].State = "DEAD" }},
		{"leased_again", "completion", func(s *story) { s.worked("w1.1", "a", 9, 700, 800, DidFail, Refused) }},
	})
}

func TestRepeatBites(t *testing.T) {
	t.Parallel()
	answered := func(what, did string, o Outcome, state string) func(s *story) {
		return func(s *story) {
			s.op(Op{Process: "hostile-1-a0", Func: what, Job: "a", Invoke: ms(600), Return: ms(601), Outcome: o,
				Did: did, State: state})
		}
	}
	bites(t, []plant{
		{"forged_accepted", "repeat", answered(OpForge, "a lease that never was", OK, "COMPLETED")},
		{"another_result_accepted", "repeat", answered(OpRepeat, "other after ok", OK, "COMPLETED")},
		{"repeat_refused", "repeat", answered(OpRepeat, "same after ok", Refused, "COMPLETED")},
		{"repeat_other_state", "repeat", answered(OpRepeat, "same after ok", OK, "DEAD")},
		{"second_thoughts", "repeat", answered(OpRepeat, "same after refused", OK, "COMPLETED")},
	})
	spares(t, []plant{
		{"repeat_same", "repeat", answered(OpRepeat, "same after ok", OK, "COMPLETED")},
		{"forged_refused", "repeat", answered(OpForge, "a lease that never was", Refused, "")},
	})
}

func TestExpiryBites(t *testing.T) {
	t.Parallel()
	lose := func(from, at int64) func(s *story) {
		return func(s *story) {
			s.op(Op{Process: "w1.1", Func: OpConnect, Node: "n2", Invoke: ms(10)})
			s.submitted("c", from-10).worked("w1.1", "c", 9, from, at, DidLose, OK)
			s.op(Op{Process: "w1.1", Func: OpLost, Job: "c", Token: token(9), Lease: "c-lease-1.9", Invoke: ms(at),
				Kind: "NONE"})
			s.ended("c", "steady", "QUEUED", "")
		}
	}
	bites(t, []plant{
		{"nothing_was_broken", "expiry", lose(35_000, 55_000)},
		{"another_node_was_broken_shortly", "expiry", lose(5_000, 24_000)},
	})
	spares(t, []plant{
		{"worker_was_paused", "expiry", func(s *story) {
			lose(35_000, 55_000)(s)
			s.h.Changes = append(s.h.Changes, Change{ms(40_000), "w1", IsPaused}, Change{ms(50_000), "w1", IsUp})
		}},
		{"its_node_was_cut_off", "expiry", func(s *story) {
			lose(35_000, 55_000)(s)
			s.h.Cuts = append(s.h.Cuts, Cut{"n2", "w1", ms(40_000), ms(50_000)})
		}},
		{"no_leader_for_long", "expiry", func(s *story) {
			lose(35_000, 55_000)(s)
			s.h.Faults = append(s.h.Faults, Fault{Nemesis: "kill-all", Targets: []string{"n1", "n2", "n3"},
				From: ms(40_000), To: ms(44_000)})
		}},
	})
}

func TestDigestBites(t *testing.T) {
	t.Parallel()
	bites(t, []plant{
		{"on_the_way", "digest", func(s *story) { s.h.Samples[3].Digests[1].Digest = "bb" }},
		{"at_the_end", "digest", func(s *story) { s.h.Verdict.Equal = false }},
		{"invariant", "digest", func(s *story) { s.h.Verdict.Nodes[1].Violations = []string{"I7"} }},
		{"no_verdict", "digest", func(s *story) { s.h.Verdict = nil }},
		{"node_missing", "digest", func(s *story) { s.h.Verdict.Nodes = s.h.Verdict.Nodes[:2] }},
		{"damaged_backup", "digest", func(s *story) { s.h.Damaged = []string{"crc"} }},
	})
}

func TestClockBites(t *testing.T) {
	t.Parallel()
	bites(t, []plant{
		{"goes_back", "clock", func(s *story) { s.h.Samples[5].Clock -= 1_500 }},
		{"two_at_one_index", "clock", func(s *story) { s.h.Samples[5].Index = s.h.Samples[4].Index }},
		{"runs_slow", "clock", func(s *story) {
			for i := range s.h.Samples {
				s.h.Samples[i].Clock -= int64(i) * 200
			}
		}},
		{"runs_fast", "clock", func(s *story) {
			for i := range s.h.Samples {
				s.h.Samples[i].Clock += int64(i) * 200
			}
		}},
	})
}

func TestBlameBites(t *testing.T) {
	t.Parallel()
	usedUp := func(end string) func(s *story) {
		return func(s *story) {
			s.submitted("c", 900).ended("c", "long", "QUEUED", "", 8, 9)
			attempts := s.h.Final[len(s.h.Final)-1].Attempts
			attempts[0].End, attempts[1].Number = end, 1
		}
	}
	bites(t, []plant{{"used_up_by_declines", "blame", usedUp("DECLINED")}})
	spares(t, []plant{{"used_up_by_a_deadline", "blame", usedUp("LEASE_EXPIRED")}})
}

func TestCrashBites(t *testing.T) {
	t.Parallel()
	bites(t, []plant{{"panic", "crash", func(s *story) { s.h.Crashes = []Crash{{Node: "n1", Exit: "exit status 2"}} }},
		{"stuck", "crash", func(s *story) { s.h.Stuck = []Crash{{Node: "n1", Exit: "25s"}} }}})
}

func TestLivenessBites(t *testing.T) {
	t.Parallel()
	bites(t, []plant{
		{"no_leader", "liveness", func(s *story) { s.h.Liveness.LeaderMs = -1 }},
		{"late_write", "liveness", func(s *story) { s.h.Liveness.WriteMs = 10_001 }},
		{"not_drained", "liveness", func(s *story) { s.h.Liveness.DrainMs = 60_001 }},
		{"a_node_is_dumb", "liveness", func(s *story) { s.h.Liveness.NodesMs = -1 }},
	})
}

// lied completes job a with a hostile worker's second output.
func lied(did string) func(s *story) {
	return func(s *story) {
		s.h.Final[0].Output = Lie
		s.op(Op{Process: "hostile-1-a0", Func: OpRepeat, Job: "a", Invoke: ms(600), Return: ms(601), Outcome: OK,
			Did: did, State: "COMPLETED"})
	}
}
