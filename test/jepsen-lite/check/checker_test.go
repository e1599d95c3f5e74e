package check

import (
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// ms is a time of the run.
func ms(t int64) int64 { return t * 1e6 }

func token(n uint64) rota.Token { return rota.Token{Incarnation: 1, Counter: n} }

// story writes histories for tests, one sentence after the other.
type story struct{ h *History }

// submitted adds a producer's submission of a job with an answer 5 ms later.
func (s *story) submitted(job string, at int64) *story {
	return s.op(Op{Process: "producer-1", Func: OpSubmit, Job: job, Node: "n1", Invoke: ms(at), Return: ms(at + 5),
		Outcome: OK, State: "QUEUED"})
}

// worked adds a worker that does a job from begin to end, and gets the answer 3 ms later.
func (s *story) worked(process, job string, t uint64, begin, end int64, did string, outcome Outcome) *story {
	op := Op{Process: process, Job: job, Token: token(t), Lease: job + "-lease-" + token(t).String(), Attempt: int32(t)}
	started, ended, reported := op, op, op
	started.Func, started.Invoke, started.Return, started.Outcome = OpStart, ms(begin), ms(begin), OK
	ended.Func, ended.Invoke, ended.Return, ended.Did = OpEnd, ms(begin), ms(end), did
	ended.Output = job + "/" + token(t).String()
	reported.Func, reported.Invoke, reported.Return, reported.Outcome = OpReport, ms(end), ms(end+3), outcome
	reported.Did, reported.Output = did, ended.Output
	s.op(started).op(ended)
	if did != DidLose {
		s.op(reported)
	}
	return s
}

// read adds a reader that sees a job in a state.
func (s *story) read(job, state string, t uint64, from, to int64) *story {
	op := Op{Process: "reader-1", Func: OpGet, Job: job, Node: "n2", Invoke: ms(from), Return: ms(to), Outcome: OK,
		State: state}
	switch {
	case state == "COMPLETED":
		op.Output = job + "/" + token(t).String()
	case t > 0:
		op.Token, op.Lease = token(t), job+"-lease-"+token(t).String()
	}
	return s.op(op)
}

func (s *story) op(op Op) *story {
	s.h.Ops = append(s.h.Ops, op)
	return s
}

// ended adds the job as the cluster shows it at the end.
func (s *story) ended(job, queue, state, output string, tokens ...uint64) *story {
	j := FinalJob{ID: job, Queue: queue, State: state, Output: output}
	for _, t := range tokens {
		j.Attempts = append(j.Attempts, FinalAttempt{Lease: job + "-lease-" + token(t).String(), Token: token(t)})
	}
	s.h.Final = append(s.h.Final, j)
	return s
}

// storyQueues are queues as a run has them.
var storyQueues = map[string]QueueFacts{
	"quick": {LeaseMs: 5_000, AttemptMax: 1_000}, "long": {LeaseMs: 6_000, AttemptMax: 1_000},
	"steady": {LeaseMs: 20_000, AttemptMax: 1_000},
	"flaky":  {LeaseMs: 5_000, AttemptMax: 4}, "prey": {LeaseMs: 5_000, AttemptMax: 1_000},
	"market":   {LeaseMs: 5_000, AttemptMax: 1_000},
	"adaptive": {LeaseMs: 5_000, AttemptMax: 1_000}, "flux": {LeaseMs: 4_000, AttemptMax: 1_000},
}

// goodStory breaks no promise: job a is failed and then done, b is cancelled.
func goodStory() *story {
	s := &story{&History{
		Version: "1", Nodes: 3, Network: "namespaces", End: ms(120_000), FaultsEnd: ms(60_000), Queues: storyQueues,
		Liveness: Liveness{HealedAt: ms(60_000), LeaderMs: 900, WriteMs: 1_000, NodesMs: 2_000, DrainMs: 9_000,
			Listed: true},
		Verdict: &rota.Verdict{Equal: true, Nodes: []rota.NodeVerdict{{ID: "n1"}, {ID: "n2"}, {ID: "n3"}}},
		Faults:  []Fault{{Nemesis: "kill-one", Targets: []string{"n1"}, From: ms(20_000), To: ms(22_000)}},
		Changes: []Change{{0, "n1", IsUp}, {0, "w1", IsUp}, {0, "w2", IsUp}, {ms(20_000), "n1", IsDown},
			{ms(22_000), "n1", IsUp}},
	}}
	for at := int64(30_000); at <= 50_000; at += 1_000 {
		s.h.Samples = append(s.h.Samples, Sample{Asked: ms(at - 2), At: ms(at), Node: "n2", Leader: "n2", Term: 3,
			Index: uint64(at), Clock: 1_000_000 + at,
			Digests: []NodeDigest{{"n2", uint64(at), "aa"}, {"n3", uint64(at), "aa"}}})
	}
	s.submitted("a", 100).worked("w1.1", "a", 1, 200, 300, DidFail, OK).read("a", "QUEUED", 0, 310, 320)
	s.worked("w2.1", "a", 4, 400, 500, DidComplete, OK).read("a", "COMPLETED", 4, 510, 520)
	s.ended("a", "quick", "COMPLETED", "a/1.4", 1, 4)
	s.h.Final[0].Attempts[1].Number = 1
	s.submitted("b", 100).worked("w1.1", "b", 2, 200, 900, DidLose, OK)
	s.op(Op{Process: "canceller-1", Func: OpCancel, Job: "b", Invoke: ms(600), Return: ms(610), Outcome: OK,
		State: "CANCELLED"})
	s.op(Op{Process: "w1.1", Func: OpLost, Job: "b", Token: token(2), Lease: "b-lease-1.2", Invoke: ms(620),
		Return: ms(620), Kind: "CANCELLED"})
	s.read("b", "CANCELLED", 0, 700, 710)
	s.ended("b", "long", "CANCELLED", "", 2)
	s.happened("jobEnqueued", "a", 0, "").happened("jobEnqueued", "b", 0, "").happened("jobAssigned", "a", 1, "")
	s.happened("jobAssigned", "b", 2, "").happened("leaseCancelled", "a", 1, "PROVIDER_FAIL")
	s.happened("jobEnqueued", "a", 0, "").happened("jobAssigned", "a", 4, "").happened("jobCompleted", "a", 4, "DONE")
	s.happened("leaseCancelled", "b", 2, "CANCELLED").happened("jobCancelled", "b", 0, "CANCELLED")
	for _, name := range []string{"n1", "n2", "n3"} {
		s.h.Streams = append(s.h.Streams, Against(name, true, s.h.Events, Briefs(s.h.Events)))
		s.h.Shown = append(s.h.Shown, NodeShows{Node: name, Listed: 2, Sampled: 2})
		s.h.Logs = append(s.h.Logs, LogOf{Node: name, First: 1, Last: 99, Compared: 99})
		s.h.Weights = append(s.h.Weights, Weight{ms(10), name, 40, 200}, Weight{ms(110_000), name, 45, 220})
		s.h.Audits = append(s.h.Audits, AuditOf{Node: name, Report: &rota.AuditReport{Rounds: 9, Proved: 9}})
	}
	s.follows(s.h.Events)
	return s
}

// happened adds one more event, in a separate entry, to all nodes' streams.
func (s *story) happened(kind, job string, t uint64, reason string) *story {
	e := SeenEvent{ID: rota.EventID{Incarnation: 1, Index: rota.Index(10 + len(s.h.Events))}, Kind: kind, Job: job,
		Reason: reason, Clock: 1_000_000, Sum: uint64(len(s.h.Events))}
	if t > 0 {
		e.Lease = leaseKeptOf(job + "-lease-" + token(t).String())
	}
	s.h.Events = append(s.h.Events, e)
	return s
}

// follows adds a follower's stream.
func (s *story) follows(told []SeenEvent) *story {
	s.h.Streams = append(s.h.Streams, Against("watcher", false, s.h.Events, Briefs(told)))
	return s
}

// TestNoFalseAlarm: a good history gets a good verdict.
func TestNoFalseAlarm(t *testing.T) {
	t.Parallel()
	verdict := Judge(goodStory().h)
	for _, a := range verdict.Anomalies {
		t.Errorf("%s: %s", a.Checker, a.Text)
	}
	if verdict.Figures["clock_rate_least"] == nil {
		t.Error("the clock's rate was not measured")
	}
}

// plant is a violation that a checker must catch.
type plant struct {
	name, checker string
	do            func(s *story)
}

// bites plants violations one by one and requires the named checker to report them.
func bites(t *testing.T, plants []plant) {
	t.Helper()
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := goodStory()
			p.do(s)
			verdict := Judge(s.h)
			for _, a := range verdict.Anomalies {
				if a.Checker == p.checker && a.Text != "" && verdict.Violations > 0 {
					return
				}
			}
			t.Errorf("%s reported nothing; others: %v", p.checker, verdict.Anomalies)
		})
	}
}

// spares requires the named checker to report nothing.
func spares(t *testing.T, plants []plant) {
	t.Helper()
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := goodStory()
			p.do(s)
			for _, a := range Judge(s.h).Anomalies {
				if a.Checker == p.checker {
					t.Errorf("%s reported a false alarm: %s", p.checker, a.Text)
				}
			}
		})
	}
}

// find returns the nth operation of a kind on a job.
func (s *story) find(what, job string, n int) *Op {
	for i := range s.h.Ops {
		if op := &s.h.Ops[i]; op.Func == what && op.Job == job {
			if n--; n < 0 {
				return op
			}
		}
	}
	panic("the story has no such operation: " + what + " " + job)
}

// TestReport: the page is written, complete, with its anomalies.
func TestReport(t *testing.T) {
	t.Parallel()
	s := goodStory()
	outlived(s)
	s.h.Final = s.h.Final[:1]
	dir := t.TempDir()
	if err := SaveHistory(dir+"/h.json.gz", s.h); err != nil {
		t.Fatal(err)
	}
	h, err := LoadHistory(dir + "/h.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	verdict := Judge(h)
	if verdict.Violations == 0 {
		t.Error("the loaded history lost its violation")
	}
	var page strings.Builder
	if err := renderReport(&page, h, verdict); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "is not there at the end", "kill-one", "n1's was recovered", "</html>"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
}
