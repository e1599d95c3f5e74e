package check

import (
	"slices"
	"testing"

	"github.com/rotasched/rota"
)

// flowStory adds a workflow w of nodes a → b, a → c to the story: it failed at b under
// continue with c done, was run again from b, and completed.
func flowStory(s *story) {
	s.h.Flows = append(s.h.Flows, FlowFacts{"w", "continue",
		[]NodeFacts{{ID: "a"}, {ID: "b", Parents: []string{"a"}}, {ID: "c", Parents: []string{"a"}},
			{ID: "d", Parents: []string{"b"}}}})
	s.flowOp(OpFlowSubmit, Unknown).flowOp(OpFlowSubmit, OK).flowOp(OpFlowRetry, OK)
	s.flow("workflowStarted", "", "").flow("jobEnqueued", "a", "").flow("jobCompleted", "a", "DONE")
	s.flow("jobEnqueued", "b", "").flow("jobEnqueued", "c", "").flow("jobDead", "b", "PROVIDER_FAIL")
	s.flow("jobCancelled", "d", "PARENT_FAILED").flow("jobCompleted", "c", "DONE").flow("workflowFinished", "",
		"FAILED")
	s.flow("workflowStarted", "", "").flow("jobEnqueued", "b", "").flow("jobCompleted", "b", "DONE")
	s.flow("jobEnqueued", "d", "").flow("jobCompleted", "d", "DONE").flow("workflowFinished", "", "COMPLETED")
	s.h.FinalFlows = append(s.h.FinalFlows, FinalFlow{"w", "COMPLETED", 2,
		map[string]string{"a": "COMPLETED", "b": "COMPLETED", "c": "COMPLETED", "d": "COMPLETED"}})
	for i := range s.h.Streams {
		s.h.Streams[i] = Against(s.h.Streams[i].Name, s.h.Streams[i].Whole, s.h.Events, Briefs(s.h.Events))
	}
}

func (s *story) flowOp(what string, o Outcome) *story {
	return s.op(Op{Process: "workflows-1", Func: what, Flow: "w", Node: "n1", Invoke: ms(100), Return: ms(105),
		Outcome: o})
}

// flow adds one more event of the workflow, or of a node of it, to all nodes' streams.
func (s *story) flow(kind, node, word string) *story {
	job := ""
	if node != "" {
		job = string(rota.NodeJobID("w", node))
	}
	s.happened(kind, job, 0, word)
	e := &s.h.Events[len(s.h.Events)-1]
	if e.Flow = "w"; kind == "workflowFinished" {
		e.State, e.Reason = word, ""
	}
	return s
}

// flowEvent is the nth event of a kind of the workflow.
func (s *story) flowEvent(kind, node string) int {
	return slices.IndexFunc(s.h.Events, func(e SeenEvent) bool {
		return e.Flow == "w" && e.Kind == kind && (node == "" || e.Job == "w/"+node)
	})
}

func TestWorkflowsBite(t *testing.T) {
	t.Parallel()
	with := func(change func(s *story)) func(s *story) {
		return func(s *story) { flowStory(s); change(s) }
	}
	swap := func(s *story, i, k int) {
		a, b := s.h.Events[i], s.h.Events[k]
		a.ID, b.ID = b.ID, a.ID
		s.h.Events[i], s.h.Events[k] = b, a
	}
	without := func(kind, node string) func(s *story) {
		return with(func(s *story) { i := s.flowEvent(kind, node); s.h.Events = slices.Delete(s.h.Events, i, i+1) })
	}
	bites(t, []plant{
		{"child_before_parent", "workflows", with(func(s *story) {
			swap(s, s.flowEvent("jobCompleted", "a"), s.flowEvent("jobEnqueued", "b"))
		})},
		{"completed_twice", "workflows", with(func(s *story) { s.flow("jobCompleted", "c", "DONE") })},
		{"run_again_though_done", "workflows", with(func(s *story) {
			s.flow("workflowStarted", "", "").flow("workflowFinished", "", "COMPLETED").h.FinalFlows[0].Runs = 3
		})},
		{"acknowledged_and_gone", "workflows", with(func(s *story) {
			s.h.FinalFlows = nil
			s.h.Events = slices.DeleteFunc(s.h.Events, func(e SeenEvent) bool { return e.Flow == "w" })
		})},
		{"half_of_it", "workflows", without("jobCompleted", "d")},
		{"refused_and_there", "workflows", with(func(s *story) {
			for i := range s.h.Ops {
				if s.h.Ops[i].Func == OpFlowSubmit {
					s.h.Ops[i].Outcome = Refused
				}
			}
		})},
		{"never_ends", "workflows", with(func(s *story) {
			s.h.Events = s.h.Events[:len(s.h.Events)-1]
			s.h.FinalFlows[0].State = "RUNNING"
		})},
		{"shown_otherwise", "workflows", with(func(s *story) { s.h.FinalFlows[0].State = "FAILED" })},
		{"node_shown_otherwise", "workflows", with(func(s *story) { s.h.FinalFlows[0].Nodes["b"] = "DEAD" })},
		{"not_shown", "workflows", with(func(s *story) { s.h.FinalFlows = nil })},
		{"run_again_by_nobody", "workflows", with(func(s *story) {
			s.h.Ops = slices.DeleteFunc(s.h.Ops, func(op Op) bool { return op.Func == OpFlowRetry })
		})},
		{"cancelled_by_nobody", "workflows", with(func(s *story) {
			s.h.Events[len(s.h.Events)-1].State, s.h.FinalFlows[0].State = "CANCELLED", "CANCELLED"
		})},
		{"a_node_of_nobody", "workflows", with(func(s *story) { s.flow("jobCompleted", "z", "DONE") })},
		{"a_workflow_of_nobody", "workflows", with(func(s *story) { s.h.Flows = nil })},
		{"failed_without_failure", "workflows", func(s *story) {
			s.h.Flows = append(s.h.Flows, FlowFacts{"w", "continue", []NodeFacts{{ID: "a"}}})
			s.flowOp(OpFlowSubmit, OK).flow("workflowStarted", "", "").flow("jobCancelled", "a", "PARENT_FAILED")
			s.flow("workflowFinished", "", "FAILED")
			s.h.FinalFlows = append(s.h.FinalFlows, FinalFlow{"w", "FAILED", 1, map[string]string{"a": "SKIPPED"}})
		}},
	})
	spares(t, []plant{
		{"retried", "workflows", flowStory},
		{"retried", "events", flowStory},
		{"retried", "linear", flowStory},
		{"unknown_and_gone", "workflows", func(s *story) {
			s.h.Flows = append(s.h.Flows, FlowFacts{"w", "continue", []NodeFacts{{ID: "a"}}})
			s.flowOp(OpFlowSubmit, Unknown)
		}},
	})
}
