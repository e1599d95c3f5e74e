package check

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rotasched/rota"
)

// tells adds one more event to all nodes' streams, which names something in addition to a job.
func (s *story) tells(kind, job, of string) *SeenEvent {
	s.happened(kind, job, 0, "")
	e := &s.h.Events[len(s.h.Events)-1]
	e.Of = of
	return e
}

// again gives the readers the current events of the story.
func (s *story) again() {
	for i := range s.h.Streams {
		s.h.Streams[i] = Against(s.h.Streams[i].Name, s.h.Streams[i].Whole, s.h.Events, Briefs(s.h.Events))
	}
}

// done adds the events of a job that is completed or dead, held by a worker meanwhile.
func (s *story) done(job, state string, t uint64, from, to int64) *story {
	did, kind := DidComplete, "jobCompleted"
	if state == "DEAD" {
		did, kind = DidNoRetry, "jobDead"
	}
	s.submitted(job, from-50).worked(fmt.Sprintf("w%d.1", t), job, t, from, to, did, OK)
	output := ""
	if state == "COMPLETED" {
		output = job + "/" + token(t).String()
	}
	return s.ended(job, "quick", state, output, t).happened("jobAssigned", job, t, "").happened(kind, job, t, "DONE")
}

// batchStory adds a batch of two jobs, of which one dies, and its callback.
func batchStory(s *story) {
	f := BatchFacts{ID: "b-1", At: ms(900), Opened: true, Sealed: true, Jobs: []string{"x", "y"},
		Shown: &rota.Batch{ID: "b-1", State: rota.BatchFinished,
			BatchCounts: rota.BatchCounts{Total: 2, Completed: 1, Dead: 1}},
		Labels: map[string]string{"rota.total": "2", "rota.completed": "1", "rota.dead": "1", "rota.expired": "0",
			"rota.cancelled": "0"}}
	s.h.Batches = []BatchFacts{f}
	s.tells("batchOpened", "", "b-1")
	s.happened("jobEnqueued", "x", 0, "").happened("jobEnqueued", "y", 0, "").done("x", "COMPLETED", 21, 1_000, 1_100)
	s.tells("batchSealed", "", "b-1")
	s.done("y", "DEAD", 22, 1_200, 1_300)
	s.tells("batchFinished", "b-1@done", "b-1")
	s.happened("jobEnqueued", "b-1@done", 0, "").worked("w3.1", "b-1@done", 23, 1_400, 1_500, DidComplete, OK)
	s.happened("jobAssigned", "b-1@done", 23, "").happened("jobCompleted", "b-1@done", 23, "DONE").ended("b-1@done",
		"quick", "COMPLETED", "b-1@done/1.23", 23)
	s.again()
}

// swaps moves an event of one kind before the next of another one.
func (s *story) swaps(later, earlier string) {
	at := func(kind string) int {
		return slices.IndexFunc(s.h.Events, func(e SeenEvent) bool { return e.Kind == kind })
	}
	i, k := at(earlier), at(later)
	a, b := s.h.Events[i], s.h.Events[k]
	a.ID, b.ID = b.ID, a.ID
	s.h.Events[i], s.h.Events[k] = b, a
}

// drops removes the first event of a kind.
func (s *story) drops(kind string) {
	i := slices.IndexFunc(s.h.Events, func(e SeenEvent) bool { return e.Kind == kind })
	s.h.Events = slices.Delete(s.h.Events, i, i+1)
}

func after(before, then func(s *story)) func(s *story) {
	return func(s *story) { before(s); then(s) }
}

func TestBatchesBite(t *testing.T) {
	t.Parallel()
	with := func(then func(s *story)) func(s *story) { return after(batchStory, then) }
	bites(t, []plant{
		{"callback_before_a_job", "batches", with(func(s *story) { s.swaps("batchFinished", "jobDead") })},
		{"callback_before_the_seal", "batches", with(func(s *story) { s.swaps("batchFinished", "batchSealed") })},
		{"callback_twice", "batches", with(func(s *story) { s.tells("batchFinished", "b-1@done", "b-1") })},
		{"callback_never", "batches", with(func(s *story) { s.drops("batchFinished") })},
		{"callback_gone", "batches", with(func(s *story) { s.h.Final = s.h.Final[:len(s.h.Final)-1] })},
		{"callback_while_at_work", "batches", with(func(s *story) { s.find(OpEnd, "x", 0).Return = ms(1_450) })},
		{"counts", "batches", with(func(s *story) { s.h.Batches[0].Shown.Completed = 2 })},
		{"labels", "batches", with(func(s *story) { s.h.Batches[0].Labels["rota.dead"] = "0" })},
		{"a_job_ended_otherwise", "batches", with(func(s *story) { s.h.Final[3].State = "COMPLETED" })},
		{"a_job_after_the_seal", "batches", with(func(s *story) {
			s.h.Batches[0].Jobs = append(s.h.Batches[0].Jobs, "z")
			s.happened("jobEnqueued", "z", 0, "")
		})},
		{"acknowledged_and_gone", "batches", func(s *story) { s.h.Batches = []BatchFacts{{ID: "b-2", Opened: true}} }},
		{"too_many", "batches", with(func(s *story) { s.h.Batches[0].Size = 1 })},
	})
	spares(t, []plant{{"all_is_well", "batches", batchStory}, {"all_is_well", "events", batchStory},
		{"all_is_well", "lost", batchStory},
		{"all_is_well", "linear", batchStory}, {"unknown_and_gone", "batches",
			func(s *story) { s.h.Batches = []BatchFacts{{ID: "b-2"}} }}})
}

// planStory adds a plan that cancels two jobs of three, the third having ended before, and another that runs one of
// them again.
func planStory(s *story) {
	shown := func(done, passed int64) *rota.Plan {
		return &rota.Plan{State: rota.PlanDone, Done: done, Passed: passed}
	}
	s.h.Plans = []PlanFacts{{ID: "p1", Verb: "cancel", At: ms(2_000), Started: true, Jobs: []string{"x", "y", "z"},
		Shown: shown(2, 0)},
		{ID: "p2", Verb: "retry", At: ms(3_000), Started: true, Max: 1, Jobs: []string{"x", "y", "z"},
			Shown: shown(1, 0)}}
	for _, job := range []string{"x", "y", "z"} {
		s.happened("jobEnqueued", job, 0, "")
	}
	s.done("z", "COMPLETED", 31, 1_000, 1_100).submitted("x", 950).submitted("y", 950)
	s.tells("planStarted", "", "p1")
	s.happened("jobCancelled", "x", 0, "CANCELLED").happened("jobCancelled", "y", 0, "CANCELLED")
	*s.tells("planFinished", "", "p1") = SeenEvent{ID: s.h.Events[len(s.h.Events)-1].ID, Kind: "planFinished", Of: "p1",
		State: "DONE", Count: 2, Clock: 1_000_000, Sum: 7_001}
	s.tells("planStarted", "", "p2")
	s.happened("jobEnqueued", "x", 0, "")
	*s.tells("planFinished", "", "p2") = SeenEvent{ID: s.h.Events[len(s.h.Events)-1].ID, Kind: "planFinished", Of: "p2",
		State: "DONE", Count: 1, Clock: 1_000_000, Sum: 7_002}
	s.worked("w3.1", "x", 33, 3_400, 3_500, DidComplete, OK).happened("jobAssigned", "x", 33,
		"").happened("jobCompleted", "x", 33, "DONE")
	s.ended("x", "quick", "COMPLETED", "x/1.33", 33).ended("y", "quick", "CANCELLED", "")
	s.again()
}

func TestPlansBite(t *testing.T) {
	t.Parallel()
	with := func(then func(s *story)) func(s *story) { return after(planStory, then) }
	move := func(to string, e string, turns int) func(s *story) {
		return func(s *story) {
			s.h.Plans = []PlanFacts{{ID: "p1", Verb: "move", To: to, Jobs: []string{"x"},
				Shown: &rota.Plan{State: rota.PlanDone, Done: 1}}}
			s.happened("jobDelayed", "x", 0, "").submitted("x", 950).ended("x", to, "QUEUED", "")
			s.tells("planStarted", "", "p1")
			for range turns {
				s.tells("jobChanged", "x", e)
			}
			f := s.tells("planFinished", "", "p1")
			f.State, f.Count = "DONE", 1
		}
	}
	bites(t, []plant{
		{"one_left_out", "plans", with(func(s *story) {
			i := slices.IndexFunc(s.h.Events, func(e SeenEvent) bool {
				return e.Kind == "jobCancelled" && e.Job == "y"
			})
			s.h.Events = slices.Delete(s.h.Events, i, i+1)
		})},
		{"one_twice", "plans", with(func(s *story) {
			i := slices.IndexFunc(s.h.Events, func(e SeenEvent) bool {
				return e.Kind == "jobCancelled" && e.Job == "y"
			})
			s.h.Events = slices.Insert(s.h.Events, i, s.h.Events[i])
		})},
		{"counts", "plans", with(func(s *story) { s.h.Plans[0].Shown.Done = 3 })},
		{"more_than_there_were", "plans", with(func(s *story) { s.h.Plans[0].Shown.Passed = 2 })},
		{"more_than_asked", "plans", with(func(s *story) { s.h.Plans[0].Max = 1 })},
		{"without_a_plan", "plans", with(func(s *story) { s.happened("jobCancelled", "x", 0, "CANCELLED") })},
		{"run_again_by_nobody", "plans", with(func(s *story) { s.happened("jobEnqueued", "y", 0, "") })},
		{"never_ends", "plans", with(func(s *story) {
			s.h.Plans[1].Shown = nil
			s.drops("planFinished")
			s.drops("planFinished")
		})},
		{"cancelled_by_nobody", "plans", with(func(s *story) { s.h.Plans[1].Shown.State = rota.PlanCancelled })},
		{"acknowledged_and_gone", "plans", func(s *story) {
			s.h.Plans = []PlanFacts{{ID: "p9", Verb: "cancel", Started: true}}
		}}, {"moved_elsewhere", "plans", move("flux", "long", 1)},
		{"moved_twice", "plans", move("flux", "flux", 2)},
		{"not_moved", "plans", move("flux", "flux", 0)},
	})
	spares(t, []plant{{"all_is_well", "plans", planStory}, {"all_is_well", "events", planStory},
		{"all_is_well", "linear", planStory},
		{"all_is_well", "completion", planStory}, {"moved", "plans", move("flux", "flux", 1)}})
}

// gateStory adds a workflow w of a → gate g → b, where a grows c, which joins: g waits for it.
func gateStory(s *story) {
	s.h.Flows = append(s.h.Flows, FlowFacts{"w", "continue", []NodeFacts{{ID: "a", Grows: []NodeFacts{{ID: "c"}}},
		{ID: "g", Parents: []string{"a"}, Gate: true, TimeoutMs: 500, OnTimeout: "expire"},
		{ID: "b", Parents: []string{"g"}}}})
	s.flowOp(OpFlowSubmit, OK).signalled("s1", OK, false).signalled("s1", OK, true).signalled("s2", Refused, false)
	s.flow("workflowStarted", "", "").flow("jobEnqueued", "a", "").flow("gateSignalled", "g", "")
	s.h.Events[len(s.h.Events)-1].Of = "s1"
	s.flow("workflowGrown", "a", "").flow("jobCompleted", "a", "DONE")
	s.h.Events[len(s.h.Events)-2].Count = 1
	s.flow("jobEnqueued", "c", "").flow("jobCompleted", "c", "DONE").flow("gateWaiting", "g", "").flow("jobCompleted",
		"g", "DONE")
	s.h.Events[len(s.h.Events)-2].Date = 5_000
	s.flow("jobEnqueued", "b", "").flow("jobCompleted", "b", "DONE").flow("workflowFinished", "", "COMPLETED")
	s.h.FinalFlows = append(s.h.FinalFlows, FinalFlow{"w", "COMPLETED", 1,
		map[string]string{"a": "COMPLETED", "b": "COMPLETED", "c": "COMPLETED", "g": "COMPLETED"}})
	s.ended("w/g", "quick", "COMPLETED", "s1")
	s.again()
}

func (s *story) signalled(id string, o Outcome, existed bool) *story {
	op := Op{Process: "gates-1", Func: OpSignal, Flow: "w", Did: "g", Output: id, Node: "n1", Invoke: ms(100),
		Return: ms(105), Outcome: o, Existed: existed}
	if o == Refused {
		op.Kind = "CONFLICT"
	}
	return s.op(op)
}

func TestGatesBite(t *testing.T) {
	t.Parallel()
	with := func(then func(s *story)) func(s *story) { return after(gateStory, then) }
	timedOut := func(at int64) func(s *story) {
		return with(func(s *story) {
			s.drops("gateSignalled")
			s.h.Ops = slices.DeleteFunc(s.h.Ops, func(op Op) bool { return op.Func == OpSignal })
			e := &s.h.Events[s.flowEvent("jobCompleted", "g")]
			e.Kind, e.Reason, e.Date = "jobExpired", "GATE_TIMEOUT", rota.Date(at)
		})
	}
	bites(t, []plant{
		{"opened_twice", "gates", with(func(s *story) {
			i := s.flowEvent("gateSignalled", "g")
			s.h.Events = append(s.h.Events, s.h.Events[i])
		})},
		{"opened_by_nobody", "gates", with(func(s *story) { s.drops("gateSignalled") })},
		{"both_were_told_that_theirs_counts", "gates", with(func(s *story) { s.signalled("s2", OK, false) })},
		{"the_first_time_twice", "gates", with(func(s *story) { s.signalled("s1", OK, false) })},
		{"the_one_that_counts_refused", "gates", with(func(s *story) { s.signalled("s1", Refused, false) })},
		{"of_nobody", "gates", with(func(s *story) {
			s.h.Ops = slices.DeleteFunc(s.h.Ops, func(op Op) bool { return op.Func == OpSignal })
		})},
		{"another_output", "gates", with(func(s *story) { s.h.Final[len(s.h.Final)-1].Output = "s2" })},
		{"too_soon", "gates", timedOut(4_999)},
		{"signalled_and_timed_out", "gates", with(func(s *story) {
			e := &s.h.Events[s.flowEvent("jobCompleted", "g")]
			e.Kind, e.Reason, e.Date = "jobExpired", "GATE_TIMEOUT", 6_000
		})},
		{"half_of_the_children", "workflows", with(func(s *story) {
			s.h.Events[s.flowEvent("workflowGrown", "a")].Count = 2
		})}, {"no_children", "workflows", with(func(s *story) { s.drops("workflowGrown") })},
		{"children_twice", "workflows", with(func(s *story) {
			i := s.flowEvent("workflowGrown", "a")
			s.h.Events = slices.Insert(s.h.Events, i, s.h.Events[i])
		})},
		{"not_joined", "workflows", with(func(s *story) {
			i, k := s.flowEvent("jobEnqueued", "b"), s.flowEvent("jobCompleted", "c")
			s.h.Flows[len(s.h.Flows)-1].Nodes[2].Parents = []string{"a"} // b waits for a, so also for c
			s.h.Events[i].ID, s.h.Events[k].ID = s.h.Events[k].ID, s.h.Events[i].ID
			s.h.Events[i], s.h.Events[k] = s.h.Events[k], s.h.Events[i]
		})},
		{"a_child_is_not_shown", "workflows", with(func(s *story) { delete(s.h.FinalFlows[0].Nodes, "c") })},
	})
	follows := func(kind, node string) func(s *story) {
		return with(func(s *story) {
			s.h.Events[s.flowEvent("gateWaiting", "g")].Parent = s.h.Events[s.flowEvent(kind, node)].ID
		})
	}
	bites(t, []plant{{"a_gate's_parent_is_a_job's", "events", follows("jobCompleted", "a")}})
	spares(t, []plant{{"its_workflow's_event_before", "events", follows("workflowStarted", "")},
		{"another_node's", "events", follows("workflowGrown", "a")},
		{"all_is_well", "gates", gateStory}, {"all_is_well", "workflows", gateStory},
		{"all_is_well", "lost", gateStory}, {"in_time", "gates", timedOut(5_000)}})
}

// uniqueStory adds x that holds a key, y merged into it while it waits, and z refused.
func uniqueStory(s *story) {
	s.h.Uniques = []UniqueFacts{{Key: "k", Subs: []UniqueAsked{{"x", "refuse"}, {"z", "refuse"}}},
		{Key: "k", Subs: []UniqueAsked{{"y", "replace"}, {"v", "existing"}}}}
	s.submitted("x", 900).happened("jobEnqueued", "x", 0, "")
	s.tells("jobMerged", "x", "y")
	s.happened("jobAssigned", "x", 41, "")
	s.tells("jobMerged", "x", "v")
	s.happened("jobCompleted", "x", 41, "DONE")
	s.worked("w1.1", "x", 41, 1_000, 1_100, DidComplete, OK).ended("x", "quick", "COMPLETED", "x/1.41", 41)
	s.find(OpStart, "x", 0).Output = "y"
	s.submitted("y", 950).submitted("v", 1_050).submitted("z", 1_060)
	for _, job := range []string{"y", "v"} {
		op := s.find(OpSubmit, job, 0)
		op.Func, op.Output, op.Existed = OpMerge, "x", true
	}
	op := s.find(OpSubmit, "z", 0)
	op.Outcome, op.Kind, op.Output = Refused, "CONFLICT", "x"
	s.again()
}

func TestUniquesBite(t *testing.T) {
	t.Parallel()
	with := func(then func(s *story)) func(s *story) { return after(uniqueStory, then) }
	bites(t, []plant{
		{"two_live", "uniques", with(func(s *story) {
			i := slices.IndexFunc(s.h.Events, func(e SeenEvent) bool { return e.Kind == "jobAssigned" && e.Job == "x" })
			e := s.h.Events[i]
			e.Kind, e.Job, e.Lease = "jobEnqueued", "z", ""
			s.h.Events = slices.Insert(s.h.Events, i, e)
		})},
		{"two_at_work", "uniques", with(func(s *story) {
			s.happened("jobEnqueued", "z", 0, "").happened("jobAssigned", "z", 42, "").happened("jobCompleted", "z", 42,
				"DONE")
			s.worked("w2.1", "z", 42, 1_050, 1_150, DidComplete, OK)
		})},
		{"merged_into_one_that_ended", "uniques", with(func(s *story) { s.tells("jobMerged", "x", "v") })},
		{"merged_and_run", "uniques", with(func(s *story) { s.happened("jobEnqueued", "y", 0, "") })},
		{"merged_though_refuse", "uniques", with(func(s *story) { s.h.Uniques[1].Subs[0].OnConflict = "refuse" })},
		{"another_holder_answered", "uniques", with(func(s *story) { s.find(OpMerge, "y", 0).Output = "z" })},
		{"answered_as_its_own", "uniques", with(func(s *story) { s.find(OpMerge, "y", 0).Func = OpSubmit })},
		{"refused_though_existing", "uniques", with(func(s *story) { s.h.Uniques[0].Subs[1].OnConflict = "existing" })},
		{"refused_for_one_that_was_over", "uniques", with(func(s *story) {
			s.find(OpSubmit, "z", 0).Invoke = ms(1_200)
		})},
		{"refused_for_a_stranger", "uniques", with(func(s *story) { s.find(OpSubmit, "z", 0).Output = "a" })},
		{"refused_for_a_later_one", "uniques", with(func(s *story) { s.find(OpSubmit, "x", 0).Invoke = ms(1_070) })},
		{"the_old_payload", "uniques", with(func(s *story) { s.find(OpStart, "x", 0).Output = "x" })},
		{"a_payload_that_came_late", "uniques", with(func(s *story) {
			s.h.Uniques[1].Subs[1].OnConflict = "replace"
			s.find(OpStart, "x", 0).Output = "v"
		})},
	})
	twice := func(first Outcome) func(s *story) { // x is submitted twice: the second call is answered, long after z was refused for it
		return with(func(s *story) {
			s.submitted("x", 1_070)
			op := s.find(OpSubmit, "x", 0)
			if op.Outcome = first; first == Unknown {
				op.Return = never
			}
			s.find(OpSubmit, "x", 1).Existed = true
		})
	}
	bites(t, []plant{{"refused_for_one_that_was_refused_before", "uniques", twice(Refused)}})
	spares(t, []plant{{"submitted_by_a_call_without_an_answer", "uniques", twice(Unknown)}})
	spares(t, []plant{{"all_is_well", "uniques", uniqueStory}, {"all_is_well", "lost", uniqueStory},
		{"all_is_well", "events", uniqueStory}, {"all_is_well", "linear", uniqueStory}})
}

// logStory adds a reading of a log of many lines whose middle is not kept.
func logStory(s *story) {
	end := s.find(OpEnd, "a", 1)
	end.Logged = 2_000
	text := LogText(end.Lease, end.Logged)
	head := text[:16<<10]
	tail := text[len(text)-(48<<10):]
	read := LogRead{Node: "n2", Job: "a", Lease: end.Lease, Lines: end.Logged}
	read.Read(&rota.AttemptLog{Parts: []rota.LogPart{{Text: rota.Blob(head)},
		{At: uint64(len(text) - len(tail)), Text: rota.Blob(tail)}}}, nil)
	s.h.JobLogs = []LogRead{read}
}

func TestJobLogsBite(t *testing.T) {
	t.Parallel()
	with := func(do func(r *LogRead)) func(s *story) {
		return after(logStory, func(s *story) { do(&s.h.JobLogs[0]) })
	}
	bites(t, []plant{
		{"gone", "job_logs", with(func(r *LogRead) { r.Error = "NOT_FOUND" })},
		{"nothing", "job_logs", with(func(r *LogRead) { r.Parts = nil })},
		{"no_end", "job_logs", with(func(r *LogRead) { r.Parts = r.Parts[:1] })},
		{"cut_short", "job_logs", with(func(r *LogRead) { r.Lines++ })},
		{"another_text", "job_logs", with(func(r *LogRead) { r.Parts[1].Sum++ })},
		{"goes_on", "job_logs", with(func(r *LogRead) { r.Open = true })},
		{"twice", "job_logs", with(func(r *LogRead) { r.Parts = append(r.Parts, r.Parts[1]) })},
	})
	spares(t, []plant{{"all_is_well", "job_logs", logStory}})
	s := goodStory()
	logStory(s)
	if got := s.h.Logged(); len(got) != 1 || got[0].Lines != 2_000 || got[0].Lease != s.h.JobLogs[0].Lease {
		t.Errorf("%+v", got)
	}
}

// outcomeStory adds a job that is put off, made again later, which counts, and completed: it has two attempts.
func outcomeStory(s *story) {
	s.submitted("x", 900).happened("jobEnqueued", "x", 0, "")
	s.find(OpSubmit, "x", 0).Limit = 2
	for i, did := range []string{DidSnooze, DidLater} {
		t, at := uint64(51+i), int64(1_000+1_000*i)
		s.worked("w1.1", "x", t, at, at+100, did, OK).happened("jobAssigned", "x", t, "").happened("leaseCancelled",
			"x", t, "PROVIDER_FAIL")
		s.find(OpEnd, "x", i).WaitMs = 900
		s.h.Events[len(s.h.Events)-1].Clock += 1_000 * int64(i)
	}
	s.happened("jobAssigned", "x", 53, "").happened("jobCompleted", "x", 53, "DONE").worked("w1.1", "x", 53, 3_000,
		3_100, DidComplete, OK)
	for i := range s.h.Events {
		if e := &s.h.Events[i]; e.Job == "x" && e.Kind == "jobAssigned" {
			e.Clock += map[string]int64{"x-lease-1.51": 0, "x-lease-1.52": 900, "x-lease-1.53": 1_900}[e.Lease]
		}
	}
	s.ended("x", "flaky", "COMPLETED", "x/1.53", 51, 52, 53)
	attempts := s.h.Final[len(s.h.Final)-1].Attempts
	attempts[2].Number = 1
	s.again()
}

func TestOutcomesBite(t *testing.T) {
	t.Parallel()
	number := func(i int, n int32) func(s *story) {
		return after(outcomeStory, func(s *story) { s.h.Final[len(s.h.Final)-1].Attempts[i].Number = n })
	}
	bites(t, []plant{
		{"a_snooze_counts", "outcomes", after(number(1, 1),
			func(s *story) { s.h.Final[len(s.h.Final)-1].Attempts[2].Number = 2 })},
		{"a_failure_does_not", "outcomes", number(2, 0)},
		{"too_soon", "outcomes", after(outcomeStory, func(s *story) { s.find(OpEnd, "x", 1).WaitMs = 901 })},
		{"beyond_its_limit", "outcomes", after(outcomeStory, func(s *story) { s.find(OpSubmit, "x", 0).Limit = 1 })},
		{"dead_before_its_limit", "outcomes", after(outcomeStory, func(s *story) {
			f := &s.h.Final[len(s.h.Final)-1]
			f.State, f.Attempts = "DEAD", f.Attempts[:2]
		})},
	})
	spares(t, []plant{{"all_is_well", "outcomes", outcomeStory}, {"all_is_well", "linear", outcomeStory}})
}
