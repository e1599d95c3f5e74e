package virtual

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// noted returns a ledger that keeps its findings.
func noted() (*ledger, *[]string) {
	l, found := newLedger(), []string{}
	l.violate = func(promise, format string, args ...any) {
		found = append(found, promise+": "+fmt.Sprintf(format, args...))
	}
	return l, &found
}

func event(job rota.JobID, lease byte, token uint64) client.HandlerEvent {
	return client.HandlerEvent{Job: job, Lease: rota.LeaseID{lease}, Token: rota.Token{Incarnation: 1, Counter: token},
		Verb: rota.VerbComplete}
}

// family submits workflow f: node c after node p.
func family(l *ledger) {
	l.submitsFlow("f", &flowRecord{accepted: true, parents: map[rota.JobID][]rota.JobID{"f/p": nil, "f/c": {"f/p"}}})
}

func flowOf(state rota.WorkflowState, parent, child rota.NodeState) *rota.Workflow {
	return &rota.Workflow{ID: "f", State: state, Nodes: []rota.WorkflowNode{{ID: "p", Job: "f/p", State: parent},
		{ID: "c", Job: "f/c", State: child, Parents: []string{"p"}}}}
}

// TestLedger plants one fault for each check, next to a correct history.
func TestLedger(t *testing.T) {
	t.Parallel()
	a, b := &workerRun{id: "a"}, &workerRun{id: "b"}
	done := func(l *ledger, r *workerRun, e client.HandlerEvent) {
		l.started(r, e)
		l.finished(r, e)
		l.reported(r, e)
	}
	for name, c := range map[string]struct {
		story func(l *ledger)
		want  string
	}{
		"a sound story": {func(l *ledger) {
			l.started(a, event("j", 1, 1))
			l.lost(a, event("j", 1, 1))
			done(l, b, event("j", 2, 2))
			l.judge("j", &rota.Job{State: rota.JobCompleted, Output: rota.Blob(rota.LeaseID{2}.String())})
		}, ""},
		"a dead worker believes nothing": {func(l *ledger) {
			l.started(a, event("j", 1, 1))
			l.died(a)
			l.started(b, event("j", 2, 2))
			l.lost(b, event("j", 2, 2))
			l.judge("j", &rota.Job{State: rota.JobDead})
		}, ""},
		"two hold it": {func(l *ledger) {
			l.started(a, event("j", 1, 1))
			l.started(b, event("j", 2, 2))
		}, "no two workers hold a job"},
		"an old token": {func(l *ledger) {
			done(l, a, event("j", 1, 2))
			done(l, b, event("j", 2, 1))
		}, "tokens grow"},
		"merged into nothing": {func(l *ledger) {
			l.judge("j", &rota.Job{State: rota.JobCompleted, MergedInto: "none"})
		},
			"a submission is merged into a job that was submitted"},
		"lost": {func(l *ledger) { l.judge("j", nil) }, "an accepted job is never lost"},
		"two completions": {func(l *ledger) {
			done(l, a, event("j", 1, 1))
			done(l, b, event("j", 2, 2))
			l.judge("j", &rota.Job{State: rota.JobCompleted, Output: rota.Blob(rota.LeaseID{2}.String())})
		}, "a job completes once"},
		"an output of no lease": {func(l *ledger) {
			l.judge("j", &rota.Job{State: rota.JobCompleted, Output: rota.Blob(rota.LeaseID{2}.String())})
		}, "what completed was done"},
		"a completion undone": {func(l *ledger) {
			done(l, a, event("j", 1, 1))
			l.judge("j", &rota.Job{State: rota.JobDead})
		}, "a completion stays"},
		"cancelled without a call": {func(l *ledger) { l.judge("j", &rota.Job{State: rota.JobCancelled}) },
			"nothing is cancelled without a request"},
		"expired without a reason": {func(l *ledger) { l.judge("j", &rota.Job{State: rota.JobExpired}) },
			"nothing expires without a reason"},
		"a sound workflow": {func(l *ledger) {
			family(l)
			done(l, a, event("f/p", 1, 1))
			done(l, a, event("f/c", 2, 2))
			l.hears("f/c", []rota.ParentOutput{{Job: "f/p", Output: rota.Blob(rota.LeaseID{1}.String())}})
			l.judgeFlow("f", flowOf(rota.WorkflowCompleted, rota.NodeState(rota.JobCompleted),
				rota.NodeState(rota.JobCompleted)))
		}, ""},
		"a workflow that failed": {func(l *ledger) {
			family(l)
			l.judgeFlow("f", flowOf(rota.WorkflowFailed, rota.NodeState(rota.JobDead), rota.NodeSkipped))
		}, ""},
		"a child before its parent": {func(l *ledger) {
			family(l)
			l.started(a, event("f/c", 1, 1))
		}, "a node runs after its parents"},
		"a child that completed alone": {func(l *ledger) {
			family(l)
			l.judgeFlow("f", flowOf(rota.WorkflowFailed, rota.NodeState(rota.JobDead),
				rota.NodeState(rota.JobCompleted)))
		}, "a node runs after its parents"},
		"another's output": {func(l *ledger) {
			family(l)
			done(l, a, event("f/p", 1, 1))
			l.hears("f/c", []rota.ParentOutput{{Job: "f/p", Output: rota.Blob(rota.LeaseID{9}.String())}})
		}, "a node sees its parents' outputs"},
		"a workflow lost": {func(l *ledger) {
			family(l)
			l.judgeFlow("f", nil)
		}, "an accepted workflow is never lost"},
		"a workflow that never ends": {func(l *ledger) {
			family(l)
			l.judgeFlow("f", flowOf(rota.WorkflowRunning, rota.NodeState(rota.JobCompleted),
				rota.NodeState(rota.JobQueued)))
		}, "a drained cluster has no open workflow"},
		"skipped without a reason": {func(l *ledger) {
			family(l)
			l.judgeFlow("f", flowOf(rota.WorkflowFailed, rota.NodeState(rota.JobCompleted), rota.NodeSkipped))
		}, "only descendants of what failed are skipped"},
		"a workflow that failed without a reason": {func(l *ledger) {
			family(l)
			l.judgeFlow("f", flowOf(rota.WorkflowFailed, rota.NodeState(rota.JobCompleted),
				rota.NodeState(rota.JobCompleted)))
		}, "a workflow ends as its nodes did"},
		"refused, yet there": {func(l *ledger) {
			l.change("r", func(r *jobRecord) { r.refused = true })
			l.judge("r", &rota.Job{State: rota.JobQueued})
		}, "a refused job is not taken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, found := noted()
			l.change("j", func(r *jobRecord) { r.accepted = true })
			c.story(l)
			got := strings.Join(*found, "\n")
			if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
				t.Fatalf("found %q, want %q", got, c.want)
			}
		})
	}
}
