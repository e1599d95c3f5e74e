package words

import (
	"testing"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/peer"
)

func sampleSpec() rota.JobSpec {
	s := rota.NewJobSpec("resize", make([]byte, 256))
	s.ID, s.Tenant, s.Requires = "01JC0000000000000000000000", "acme", []string{"gpu", "ssd"}
	s.Labels = map[string]string{"a": "b", "c": "d"}
	return s
}

func sampleLease() rota.Lease {
	return rota.Lease{
		ID: rota.LeaseID{1, 2, 3}, Token: rota.Token{Incarnation: 1, Counter: 123456}, Job: "01JC", Worker: "w1",
		Session: 7, State: rota.LeaseActive, Started: rota.Moment{Clock: 1}, AckBy: rota.Moment{Clock: 2},
		RenewBy: rota.Moment{Clock: 3}, Deadline: rota.Moment{Clock: 4},
		Decision: rota.Decision{Epoch: 5, Height: 6, Reasoning: rota.Reasoning{Rule: rota.ReasoningByLeastLoaded,
			N: 2}},
	}
}

// The hot path's allocations are part of the contract: one more per job is visible in the cluster's throughput.
func TestHotPath_allocations(t *testing.T) {
	spec, lease := sampleSpec(), sampleLease()
	assignment := rota.Assignment{Lease: lease, Spec: spec}
	command := peer.LeaseCommand{Verb: rota.VerbComplete, Lease: lease.ID, Output: []byte("x")}
	answer := peer.LeaseAnswer{Deadline: 9, JobState: rota.JobCompleted}
	wireSpec, wireCommand := JobSpecToWire(&spec), LeaseCommandToWire(&command)
	wireAssignment, wireAnswer := AssignmentToWire(&assignment), LeaseAnswerToWire(&answer)
	for name, c := range map[string]struct {
		most float64
		f    func()
	}{
		"JobSpecToWire":        {1, func() { sinkAny = JobSpecToWire(&spec) }},
		"JobSpecFromWire":      {0, func() { sinkSpec = JobSpecFromWire(wireSpec) }},
		"AssignmentToWire":     {2, func() { sinkAny = AssignmentToWire(&assignment) }},
		"AssignmentFromWire":   {1, func() { sinkAssignment, _ = AssignmentFromWire(wireAssignment) }},
		"LeaseCommandToWire":   {1, func() { sinkAny = LeaseCommandToWire(&command) }},
		"LeaseCommandFromWire": {0, func() { sinkCommand, _ = LeaseCommandFromWire(wireCommand) }},
		"LeaseAnswerToWire":    {1, func() { sinkAny = LeaseAnswerToWire(&answer) }},
		"LeaseAnswerFromWire":  {0, func() { sinkAnswer, _ = LeaseAnswerFromWire(wireAnswer) }},
	} {
		if got := testing.AllocsPerRun(100, c.f); got > c.most {
			t.Errorf("%s allocates %v times, want at most %v", name, got, c.most)
		}
	}
}

var (
	sinkAny        any
	sinkSpec       rota.JobSpec
	sinkAssignment rota.Assignment
	sinkCommand    peer.LeaseCommand
	sinkAnswer     peer.LeaseAnswer
)

func BenchmarkJobSpec(b *testing.B) {
	spec := sampleSpec()
	b.ReportAllocs()
	for b.Loop() {
		sinkSpec = JobSpecFromWire(JobSpecToWire(&spec))
	}
}

func BenchmarkAssignment(b *testing.B) {
	a := rota.Assignment{Lease: sampleLease(), Spec: sampleSpec()}
	b.ReportAllocs()
	for b.Loop() {
		sinkAssignment, _ = AssignmentFromWire(AssignmentToWire(&a))
	}
}

func BenchmarkLeaseCommand(b *testing.B) {
	c := peer.LeaseCommand{Verb: rota.VerbRenew, Lease: rota.LeaseID{1}, Ordinal: 2}
	b.ReportAllocs()
	for b.Loop() {
		sinkCommand, _ = LeaseCommandFromWire(LeaseCommandToWire(&c))
	}
}

func BenchmarkLeaseAnswer(b *testing.B) {
	a := peer.LeaseAnswer{Deadline: 9, Renewals: 1, JobState: rota.JobRunning}
	var w *rotav1.LeaseAnswer
	b.ReportAllocs()
	for b.Loop() {
		w = LeaseAnswerToWire(&a)
		sinkAnswer, _ = LeaseAnswerFromWire(w)
	}
}
