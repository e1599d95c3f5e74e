package fsm

import (
	"maps"
	"slices"

	"github.com/rotasched/rota"
)

// modelReputation is a worker's reputation in the model: a flag for each reported fact, from which the status follows,
// and health in thousandths of a permille, so that it simply grows with the clock.
type modelReputation struct {
	unreachable, draining, suspended, retired, dismissed bool

	health, healthAt int64
	// seen is the health known to rounds: as of the last change or sweep.
	seen            int64
	cooling, denied map[rota.JobType]rota.Clock
	jail            rota.Clock
	bad             map[rota.JobType]int64
	proofs          int
	slashed         int64
}

// modelStake is the stake of every worker of the model.
const modelStake = 1_000_000

func newModelReputation(now rota.Clock) modelReputation {
	return modelReputation{health: 1e6, healthAt: int64(now), seen: 1000, cooling: map[rota.JobType]rota.Clock{},
		bad: map[rota.JobType]int64{}, denied: map[rota.JobType]rota.Clock{}}
}

// lasting returns the part of it that outlasts a session.
func (s modelReputation) lasting() modelReputation {
	s.unreachable, s.draining, s.retired, s.dismissed = false, false, false, false
	return s
}

func (s *modelReputation) status() rota.WorkerStatus {
	switch {
	case s.retired:
		return rota.WorkerRetired
	case s.suspended:
		return rota.WorkerSuspended
	case s.jail != 0:
		return rota.WorkerJailed
	case s.unreachable:
		return rota.WorkerUnreachable
	case s.draining:
		return rota.WorkerDraining
	}
	return rota.WorkerActive
}

func (m *model) barred(s *modelReputation, typ rota.JobType) bool {
	return m.policy.CoolAfter > 0 && s.cooling[typ] != 0 || m.policy.DenyMs > 0 && s.denied[typ] != 0
}

func (s *modelReputation) present(now rota.Clock) int64 {
	return min(1e6, s.health+int64(now)-s.healthAt)
}

// change adds permille to the health, if the policy has health_steps.
func (m *model) change(s *modelReputation, by int64) {
	if !m.policy.HealthSteps {
		return
	}
	h := s.present(m.now)
	whole := min(1000, max(0, h/1000+by))
	s.health, s.healthAt, s.seen = min(1e6, whole*1000+h%1000), int64(m.now), whole
}

// fails counts a failure or a decline of a type.
func (m *model) fails(s *modelReputation, typ rota.JobType, declined bool) {
	if m.policy.CoolAfter == 0 || declined && !m.policy.DeclineCools {
		return
	}
	if s.bad[typ]++; declined || s.bad[typ] >= m.policy.CoolAfter {
		s.cooling[typ] = m.now + rota.Clock(m.policy.CoolMs)
	}
}

func (s *modelReputation) sweep(now rota.Clock) {
	over := func(_ rota.JobType, until rota.Clock) bool { return until <= now }
	maps.DeleteFunc(s.cooling, over)
	maps.DeleteFunc(s.denied, over)
	if s.jail <= now {
		s.jail = 0
	}
	s.seen = s.present(now) / 1000
}

// disprove is an invalid proof; the caller ends the lease of the current job.
func (m *model) disprove(id rota.WorkerID, job rota.JobID) {
	w := m.workers[id]
	if !m.policy.HealthSteps {
		return
	}
	m.change(&w.modelReputation, -500)
	w.slashed += (modelStake - w.slashed) / 10
	if w.proofs++; w.proofs%3 != 0 {
		return
	}
	w.jail = m.now + 600_000
	if w.suspended || w.retired {
		return
	}
	w.unreachable = false
	for _, l := range m.leases {
		if l.worker == id && l.job != job {
			m.requeue(l)
		}
	}
}

func (m *model) status(id rota.WorkerID, s rota.WorkerStatus, session rota.Session) bool {
	w := m.workers[id]
	switch {
	case w == nil || session != 0 && session != w.session:
		return false
	case session != 0 && s != rota.WorkerDraining && s != rota.WorkerRetired:
		return false
	case w.status() == s:
		w.dismissed = w.dismissed || w.retired && session == 0
		return true
	case w.retired:
		return false
	}
	switch s {
	case rota.WorkerActive:
		if w.status() == rota.WorkerJailed {
			return false
		}
		w.suspended, w.draining = false, false
	case rota.WorkerDraining:
		if w.suspended {
			return session != 0
		}
		w.draining = true
	default:
		w.unreachable, w.draining = false, false
		w.suspended = w.suspended || s == rota.WorkerSuspended
		w.retired = s == rota.WorkerRetired
		w.dismissed = w.retired && session == 0
		for _, l := range m.leases {
			if l.worker == id && (session == 0 || l.session == session) {
				m.requeue(l)
			}
		}
	}
	return true
}

// gone reports whether a guard's report must be accepted.
func (m *model) gone(id rota.WorkerID, session rota.Session, secret string) bool {
	w := m.workers[id]
	if w == nil || session != w.session || secret != w.secret {
		return false
	}
	if w.retired {
		return true
	}
	w.unreachable, w.draining, w.retired = false, false, true
	for _, lease := range m.dueOrder() {
		l := m.leases[lease]
		switch {
		case l.worker != id || l.session != session:
		case l.revoked:
			m.requeue(l)
		default:
			m.expireLost(l)
		}
	}
	return true
}

func (m *model) reach(id rota.WorkerID, session rota.Session, reachable bool, sign rota.Clock) bool {
	w := m.workers[id]
	if w == nil || w.session != session {
		return false
	}
	switch {
	case reachable && w.status() == rota.WorkerUnreachable:
		w.unreachable = false
	case !reachable && (w.status() == rota.WorkerActive || w.status() == rota.WorkerDraining):
		w.unreachable, w.silent = true, min(sign, m.now)
	}
	return true
}

// reputations compares the workers' reputation with the model's.
func (r *race) reputations() {
	for id, want := range r.model.workers {
		now := r.b.Header.Clock
		got, _ := r.b.View.Worker(id)
		session := want.session
		if got.Session != session || got.Status != want.status() {
			r.Fatalf("worker %s is %s in session %d, want %s in %d as in the model", id, got.Status, got.Session,
				want.status(), session)
		}
		bars := func(list []rota.TypeUntil, want map[rota.JobType]rota.Clock) bool {
			lasting := 0
			for _, until := range want {
				if until > now {
					lasting++
				}
			}
			return len(list) == lasting && !slices.ContainsFunc(list,
				func(t rota.TypeUntil) bool { return want[t.Type] != t.Until.Clock })
		}
		if int64(got.Health) != want.present(now)/1000 || got.JailedUntil.Clock != want.jail ||
			!bars(got.Cooling, want.cooling) || !bars(got.Denied, want.denied) || got.Slashed != want.slashed ||
			int(got.InvalidProofs) != want.proofs {
			r.Fatalf("worker %s has %+v, want %+v as in the model", id, got, want)
		}
	}
}
