package sched

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// watch records how one job gets its worker, while the same code that decides runs (SPEC §2.4).
type watch struct {
	job    rota.JobID
	others []rota.OtherWorker
	found  bool
}

// Watch makes the Draft record which other workers were considered when the job gets its worker.
func (d *Draft) Watch(id rota.JobID) { d.watch = &watch{job: id} }

// Watched returns the workers that did not get the watched job, by id, each with the reason, at most MaxOthers and
// without retired ones. ok is false if no round of this entry drew the job.
func (d *Draft) Watched() (others []rota.OtherWorker, ok bool) {
	if d.watch == nil {
		return nil, false
	}
	return d.watch.others, d.watch.found
}

// note records the choice among the workers with room, just before the assignment uses any.
func (m *matcher) note(c *member, chosen int) {
	w := m.draft.watch
	w.found, w.others = true, []rota.OtherWorker{}
	s := m.supply
	for _, slot := range s.order {
		if len(w.others) == limits.MaxOthers {
			return
		}
		if slot == m.slots[chosen] || s.lasting[slot].retired {
			continue
		}
		reason := ""
		if pos, stands := m.position(slot); stands && c.fits(pos) {
			reason = fmt.Sprintf("had room, %d open leases; place %d of %d, behind the chosen one's %d",
				m.now.open[slot], pos, len(m.slots), chosen)
			if pos < chosen {
				reason = fmt.Sprintf("had room, %d open leases; %s put another one first", m.now.open[slot],
					m.in.Policy.Strategy)
			}
		} else {
			reason = s.ruledOut(m.now, c.item.ask(), slot).String()
		}
		w.others = append(w.others, rota.OtherWorker{Worker: s.specs[slot].ID, Reason: reason})
	}
}

// ruledOut returns the rule that keeps a worker from a job with this Ask, by the free room in t.
func (s *Supply) ruledOut(t *slotLoads, a Ask, slot int32) Unfit {
	k := &s.classes[a.Class]
	if !s.could(a, slot) {
		return s.tallied(k, slot, a.Tenant)
	}
	why := t.roomFor(slot, k.queue, k.need)
	if why == Fit && t.held.has(int(slot)) {
		return HeldForAnotherJob
	}
	if why == Fit { // it had no free slot when the round began
		return NoFreeSlot
	}
	return why
}

// Sight is what a round looked at, in addition to its pairs.
type Sight struct {
	// Candidates are the jobs that it drew, in that order, including those without a worker.
	Candidates []Candidate
	// Workers are those with room for some job at the start, in the order in which the round looked at them: at most
	// MaxOthers of Room.
	Workers []rota.WorkerID
	Room    int
}

// Candidate is a job that a round drew.
type Candidate struct {
	Job   rota.JobID
	Score int64
	Rank  int32
}

// Look makes later rounds record into s; nil ends it.
func (d *Draft) Look(s *Sight) { d.sight = s }

func (s *Sight) begin(m *matcher) {
	s.Room = len(m.slots)
	for pos := range min(s.Room, limits.MaxOthers) {
		s.Workers = append(s.Workers, m.worker(pos))
	}
}

func (s *Sight) drew(c *candidate, rank int32) {
	if s != nil {
		s.Candidates = append(s.Candidates, Candidate{c.item.ID, c.score, rank})
	}
}
