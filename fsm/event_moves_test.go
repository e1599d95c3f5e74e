package fsm

import (
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
)

// moveWatch compares the moves of jobs with the events of their entries: a reader of events alone knows every job's
// state (AICF §10). It is a second implementation of the states that jobs are in.
type moveWatch struct {
	t      tester
	states map[rota.JobID]rota.JobState
}

// reportedStates are the kinds that report a state.
var reportedStates = map[rota.EventKind]rota.JobState{
	rota.EventJobBlocked: rota.JobBlocked, rota.EventJobDelayed: rota.JobDelayed,
	rota.EventJobRetryScheduled: rota.JobDelayed, rota.EventJobEnqueued: rota.JobQueued,
	rota.EventJobAssigned: rota.JobAssigned, rota.EventJobRunning: rota.JobRunning,
	rota.EventJobCompleted: rota.JobCompleted, rota.EventJobDead: rota.JobDead,
	rota.EventJobExpired: rota.JobExpired, rota.EventJobCancelled: rota.JobCancelled,
}

// entry follows an entry's events, and compares the result with the state after it.
func (s *moveWatch) entry(a *Applied, m *Machine) {
	s.t.Helper()
	var merged rota.JobID // whose delay may restart: it is DELAYED as before, until later
	for i := range a.Events {
		e := &a.Events[i]
		if e.Kind == rota.EventJobMerged {
			merged = e.Job
		}
		if e.Kind == rota.EventJobDeleted {
			delete(s.states, e.Job)
		}
		to, reports := reportedStates[e.Kind]
		if !reports {
			continue
		}
		from := s.states[e.Job]
		if _, _, node := rota.SplitNodeJobID(e.Job); node && !from.MayBecome(to) {
			from = rota.JobBlocked // made in this entry, of a node that waited or is run again
		}
		again := e.Kind == rota.EventJobDelayed && from == rota.JobDelayed && e.Job == merged
		if !from.MayBecome(to) && !again {
			s.t.Fatalf("entry %d: %s of job %s, which was %s", a.Index, e.Kind, e.Job, from)
		}
		s.states[e.Job] = to
	}
	now := make(map[rota.JobID]rota.JobState, len(s.states))
	m.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool { now[id] = j.State; return true })
	m.ended.tombs.Scan(func(id rota.JobID, t *state.TombRow) bool { now[id] = t.State; return true })
	for id, state := range now {
		if s.states[id] != state {
			s.t.Fatalf("entry %d: job %s is %s, its events report %s", a.Index, id, state, s.states[id])
		}
	}
	s.states = now // a forgotten job is no longer a job
}

// TestEveryMoveIsReported covers jobs that wait for delays, dates and a worker that may still be running: the moves
// that models leave out.
func TestEveryMoveIsReported(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.watchMoves()
	kinds := func(a []rota.Event) (kinds []rota.EventKind) {
		for _, e := range a {
			kinds = append(kinds, e.Kind)
		}
		return kinds
	}
	one := func(want rota.EventKind, payload string, a Applied) {
		t.Helper()
		if len(a.Events) != 1 || a.Events[0].Kind != want || a.Events[0].Payload != payload {
			t.Fatalf("%v, %+v", kinds(a.Events), a.Events)
		}
	}
	b.walls = []int64{startClock, startClock, startClock}
	b.pass(1_000)
	date := b.Header.Date()
	one(rota.EventJobDelayed, state.DueAt(b.Header.Now().At(b.Header.Clock+500)),
		b.entry(submitOp(jobSpec("delayed", func(s *rota.JobSpec) { s.Delay = 500 * time.Millisecond }))))
	one(rota.EventJobDelayed, state.DueAt(b.Header.Now().On(date+60_000)),
		b.entry(submitOp(jobSpec("dated", func(s *rota.JobSpec) { s.NotBefore = (date + 60_000).Time() }))))
	b.pass(1_000)
	b.state("delayed", rota.JobQueued)
	l := b.leased("stopped", "w")
	b.ok(cancelOp("stopped"))
	a := b.entry(retryOp("stopped"))
	if got := kinds(a.Events); len(got) != 1 || got[0] != rota.EventJobDelayed {
		t.Fatalf("%v: %v", l, got)
	}
	d := diamond("wf", func(d *dag) { d.Nodes[0].Delay = 500 * time.Millisecond })
	b.upload(d)
	b.ok(d.commit())
	b.state("wf/n0", rota.JobDelayed)
	b.ok(d.cancel())
}
