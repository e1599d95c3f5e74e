package check

import (
	"testing"

	"github.com/rotasched/rota"
)

// oneBite is one violation for every existing checker. More of each, and cases that only look like one, are in the
// checkers' own tests.
var oneBite = map[string]func(s *story){
	"lost":       func(s *story) { s.h.Final = s.h.Final[:1] },
	"linear":     func(s *story) { s.read("a", "RUNNING", 4, 600, 610) },
	"overlap":    oneLeaseTwice,
	"leases":     after(outlivedStory, func(s *story) { s.happened("leaseCancelled", "x", 61, "CANCELLED") }),
	"token":      func(s *story) { s.find(OpStart, "a", 0).Token = token(2) },
	"completion": func(s *story) { s.h.Final[0].State = "DEAD" },
	"repeat": func(s *story) {
		s.op(Op{Process: "hostile-1-a0", Func: OpForge, Job: "a", Invoke: ms(600), Return: ms(601), Outcome: OK})
	},
	"revoked": func(s *story) {
		s.h.Revocations = []Revocation{{Token: "old", Acknowledged: ms(50)}}
		s.find(OpSubmit, "a", 0).Shown = "old"
	},
	"expiry": func(s *story) {
		s.submitted("c", 34_000).worked("w1.1", "c", 9, 35_000, 55_000, DidLose, OK)
		s.op(Op{Process: "w1.1", Func: OpLost, Job: "c", Token: token(9), Lease: "c-lease-1.9", Invoke: ms(55_000),
			Kind: "NONE"})
		s.ended("c", "steady", "QUEUED", "")
	},
	"blame": func(s *story) {
		s.submitted("c", 900).ended("c", "long", "QUEUED", "", 8, 9)
		attempts := s.h.Final[len(s.h.Final)-1].Attempts
		attempts[0].End, attempts[1].Number = "DECLINED", 1
	},
	"digest":    func(s *story) { s.h.Verdict.Equal = false },
	"clock":     func(s *story) { s.h.Samples[5].Clock -= 1_500 },
	"events":    func(s *story) { s.follows(s.h.Events[1:]) },
	"workflows": func(s *story) { s.asked("f", OpFlowSubmit, OK, 100) },
	"keys": func(s *story) {
		s.h.Keyed = []KeyFacts{{Key: "solo:1", Most: 1, Jobs: []string{"c", "d"}}}
		s.submitted("c", 900).worked("w1.1", "c", 5, 1_000, 1_500, DidComplete, OK).ended("c", "quick", "COMPLETED",
			"c/1.5", 5)
		s.submitted("d", 910).worked("w2.1", "d", 6, 1_200, 1_400, DidComplete, OK).ended("d", "quick", "COMPLETED",
			"d/1.6", 6)
	},
	"limits": budgeted(func(s *story) { s.happened("jobAssigned", "x", 11, "").happened("jobAssigned", "y", 12, "") }),
	"schedules": func(s *story) {
		s.h.Schedules = []ScheduleFacts{{Name: "tick", EveryMs: 1_000}}
		s.dated("scheduleFired", 1_000, 0).dated("scheduleFired", 3_000, 0)
	},
	"webhooks": after(hookStory, func(s *story) { s.delivers(1) }),
	"batches":  after(batchStory, func(s *story) { s.tells("batchFinished", "b-1@done", "b-1") }),
	"plans":    after(planStory, func(s *story) { s.h.Plans[0].Shown.Done = 3 }),
	"gates":    after(gateStory, func(s *story) { s.signalled("s2", OK, false) }),
	"uniques":  after(uniqueStory, func(s *story) { s.find(OpMerge, "y", 0).Output = "z" }),
	"outcomes": after(outcomeStory, func(s *story) { s.find(OpEnd, "x", 0).WaitMs = 901 }),
	"job_logs": after(logStory, func(s *story) { s.h.JobLogs[0].Parts = nil }),
	"history":  func(s *story) { s.h.Shown[1].Listed-- },
	"audit":    func(s *story) { s.h.Audits[1].Report.Difference = &rota.AuditDifference{Index: 7} },
	"logs":     func(s *story) { s.h.Logs[1].Differs = []string{"committed entry 7 is another than that of n1"} },
	"crash":    func(s *story) { s.h.Crashes = []Crash{{Node: "n1", Exit: "exit status 2"}} },
	"death":    afterwards(func(a *Aftermath, _ *Recovery) { a.Death.HealedMs = -1 }),
	"recovery": afterwards(func(a *Aftermath, _ *Recovery) { a.forgotten("y") }),
	"disk": func(s *story) {
		s.h.Faults = []Fault{{Nemesis: "hung-fsync", Targets: []string{"n2"}, From: ms(30_000), To: ms(58_000)}}
	},
	"liveness": func(s *story) { s.h.Liveness.LeaderMs = -1 },
	"growth":   func(s *story) { s.h.Weights[1].Files += 1_000 },
}

// oneLeaseTwice: two processes work on one lease at the same time.
func oneLeaseTwice(s *story) {
	s.submitted("c", 900).worked("w1.1", "c", 5, 1_000, 1_500, DidComplete, OK)
	s.worked("w2.1", "c", 5, 1_200, 1_400, DidLose, OK).ended("c", "quick", "COMPLETED", "c/1.5", 5)
}

// TestEveryCheckerBites: a checker that was never seen to fail proves nothing.
func TestEveryCheckerBites(t *testing.T) {
	t.Parallel()
	for _, c := range checkers {
		do, known := oneBite[c.name]
		if !known {
			t.Errorf("no history shows that %s detects anything", c.name)
			continue
		}
		bites(t, []plant{{c.name, c.name, do}})
	}
}

// TestVerdictApart: safety and liveness are judged separately.
func TestVerdictApart(t *testing.T) {
	t.Parallel()
	s := goodStory()
	oneBite["growth"](s)
	oneBite["audit"](s)
	oneBite["crash"](s)
	v := Judge(s.h)
	if v.Violations != 3 || v.Safety.Violations != 2 || v.Liveness.Violations != 1 {
		t.Errorf("%d violations, %+v, %+v", v.Violations, v.Safety, v.Liveness)
	}
	if l := v.Liveness; l.LeaderMs != 900 || l.DrainMs != 9_000 || l.Limits["drain_ms"] != 60_000 ||
		len(l.Growth) != 3 ||
		l.Growth[0].Files != [2]int64{40, 1_045} {
		t.Errorf("%+v", l)
	}
}
