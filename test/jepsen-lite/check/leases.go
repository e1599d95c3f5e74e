package check

import (
	"fmt"
	"slices"
	"strings"
)

// leaseLife is the life of one lease according to the events.
type leaseLife struct {
	id, job, worker string
	// revoked is the last event that revoked it, outlives the event that ended its job and left the lease open, end the
	// event that ended it.
	revoked, outlives, end *SeenEvent
	// holds are the limits that it counts against.
	holds []*leaseLimit
}

// leaseLimit is something that only a limited number of open leases may hold.
type leaseLimit struct {
	name string
	most int
	open []*leaseLife
}

// leaseBook follows the leases of a run through its events.
type leaseBook struct {
	all map[string]*leaseLife
	// order lists the leases in the order in which they were granted.
	order []*leaseLife
	// jobs are the limits of single jobs: one lease each. others are limits that a job shares with other jobs, workers
	// are the limits of workers.
	jobs, workers map[string]*leaseLimit
	others        map[string][]*leaseLimit
	faults        []Anomaly
}

// Holds records the maximum number of leases of a worker.
func (h *History) Holds(worker string, room int) {
	if h.Rooms == nil {
		h.Rooms = make(map[string]int)
	}
	h.Rooms[worker] = max(h.Rooms[worker], room)
}

// sweepLate is how much later than its deadline a lease may end, in milliseconds of the cluster's clock.
const sweepLate = 5_000

// readLeases follows the leases. Other checkers query those that outlived their jobs.
func (v *view) readLeases() {
	b := &leaseBook{all: make(map[string]*leaseLife), jobs: make(map[string]*leaseLimit),
		workers: make(map[string]*leaseLimit), others: v.sharedLimits()}
	v.leases = b
	for worker, room := range v.Rooms {
		b.workers[worker] = &leaseLimit{name: "worker " + worker, most: room}
	}
	for i := range v.Events {
		b.told(&v.Events[i])
	}
}

// sharedLimits returns the limits of unique keys, of keys with a rule and of schedules without overlap, by job.
func (v *view) sharedLimits() map[string][]*leaseLimit {
	of, unique := make(map[string][]*leaseLimit), make(map[string]*leaseLimit)
	for i := range v.Uniques {
		f := &v.Uniques[i]
		if unique[f.Key] == nil {
			unique[f.Key] = &leaseLimit{name: "unique key " + f.Key, most: 1}
		}
		for _, s := range f.Subs {
			of[s.ID] = append(of[s.ID], unique[f.Key])
		}
	}
	for i := range v.Keyed {
		l := &leaseLimit{name: "key " + v.Keyed[i].Key, most: v.Keyed[i].Most}
		for _, id := range v.Keyed[i].Jobs {
			of[id] = append(of[id], l)
		}
	}
	inTurn := make(map[string]*leaseLimit)
	for i := range v.Schedules {
		if f := &v.Schedules[i]; f.InTurn {
			inTurn[f.Name] = &leaseLimit{name: "schedule " + f.Name, most: 1}
		}
	}
	for i := range v.Events {
		e := &v.Events[i]
		if l := inTurn[e.Schedule]; l != nil && e.Kind == "scheduleFired" {
			of[e.Job] = append(of[e.Job], l)
		}
	}
	return of
}

// outlived reports whether an event is the end of a lease that outlived its job: such an event is not part of the job's
// life.
func (v *view) outlived(e *SeenEvent) bool {
	if !endsLease(e.Kind) {
		return false
	}
	l := v.leases.all[e.Lease]
	return l != nil && l.outlives != nil
}

// endsLease reports whether an event ends only a lease.
func endsLease(kind string) bool {
	return slices.Contains([]string{"leaseCancelled", "leaseExpired", "leaseDeclined"}, kind)
}

func (b *leaseBook) say(e *SeenEvent, lease, format string, args ...any) {
	text := fmt.Sprintf("event %s (%s) of job %s: ", e.ID, e.Kind, e.Job) + fmt.Sprintf(format, args...)
	b.faults = append(b.faults, Anomaly{IDs: []string{e.Job, lease}, Text: text})
}

// current returns the open lease of a job that has not ended, nil for none.
func (b *leaseBook) current(job string) *leaseLife {
	if l := b.jobs[job]; l != nil {
		for _, o := range l.open {
			if o.outlives == nil {
				return o
			}
		}
	}
	return nil
}

func (b *leaseBook) told(e *SeenEvent) {
	if e.Job == "" || e.Schedule != "" || e.isOfBatch() { // schedules and batches report the job that they start
		return
	}
	switch e.Kind {
	case "jobAssigned":
		b.given(e)
	case "leaseAcked", "leaseRenewed", "jobProgress", "leaseRevoked":
		b.used(e)
	case "leaseCancelled", "leaseExpired", "leaseDeclined":
		b.ended(e)
	case "jobCompleted", "jobDead", "jobExpired", "jobCancelled":
		b.jobEnded(e)
	case "jobDeleted":
		if l := b.jobs[e.Job]; l != nil && len(l.open) > 0 {
			b.say(e, l.open[0].id, "its lease %s is open", l.open[0].id)
		}
	}
}

// given records a new lease, for which there must be room.
func (b *leaseBook) given(e *SeenEvent) {
	if before := b.all[e.Lease]; before != nil {
		b.say(e, e.Lease, "lease %s was given before, of job %s", e.Lease, before.job)
		return
	}
	l := &leaseLife{id: e.Lease, job: e.Job, worker: e.Worker}
	b.all[l.id], b.order = l, append(b.order, l)
	if b.jobs[l.job] == nil {
		b.jobs[l.job] = &leaseLimit{name: "the job", most: 1}
	}
	l.holds = append(slices.Clone(b.others[l.job]), b.jobs[l.job])
	if w := b.workers[l.worker]; w != nil {
		l.holds = append(l.holds, w)
	}
	for _, h := range l.holds {
		if len(h.open) >= h.most {
			o := h.open[0]
			text := ""
			if o.outlives != nil {
				text = fmt.Sprintf(", which outlived it by event %s", o.outlives.ID)
			}
			b.say(e, l.id, "%d leases of %s are open, %d may be: lease %s of job %s is one%s", len(h.open)+1, h.name,
				h.most, o.id, o.job, text)
		}
		h.open = append(h.open, l)
	}
}

// used records an event about an open lease.
func (b *leaseBook) used(e *SeenEvent) {
	l := b.all[e.Lease]
	switch {
	case l == nil || l.job != e.Job:
		b.say(e, e.Lease, "it never had lease %s", e.Lease)
		return
	case l.end != nil:
		b.say(e, l.id, "lease %s was ended by event %s (%s)", l.id, l.end.ID, l.end.Kind)
	case l.outlives != nil:
		b.say(e, l.id, "lease %s outlived its job by event %s (%s)", l.id, l.outlives.ID, l.outlives.Kind)
	case e.Kind == "leaseRenewed" && l.revoked != nil:
		b.say(e, l.id, "lease %s was revoked by event %s (%s)", l.id, l.revoked.ID, l.revoked.Reason)
	}
	if e.Kind == "leaseRevoked" {
		l.revoked = e
	}
}

// ended records an event that ends a lease, which happens once; a lease that outlived its job ends for the reason for
// which it was revoked.
func (b *leaseBook) ended(e *SeenEvent) {
	l := b.all[e.Lease]
	switch {
	case l == nil || l.job != e.Job:
		b.say(e, e.Lease, "it never had lease %s", e.Lease)
		return
	case l.end != nil:
		b.say(e, l.id, "lease %s was ended before, by event %s (%s)", l.id, l.end.ID, l.end.Kind)
		return
	case l.outlives != nil && (e.Kind != "leaseCancelled" || e.Reason != l.outlives.Reason):
		b.say(e, l.id, "it ends lease %s for %s, which outlived its job by event %s (%s, %s)", l.id, e.Reason,
			l.outlives.ID, l.outlives.Kind, l.outlives.Reason)
	}
	l.ends(e)
}

// sameEntry reports whether two events belong to the same entry.
func (s *SeenEvent) sameEntry(o *SeenEvent) bool {
	return s.ID.Incarnation == o.ID.Incarnation && s.ID.Index == o.ID.Index
}

// ends frees everything that a lease held.
func (l *leaseLife) ends(e *SeenEvent) {
	l.end = e
	for _, h := range l.holds {
		h.open = slices.DeleteFunc(h.open, func(o *leaseLife) bool { return o == l })
	}
}

// jobEnded records the end of a job. An outcome from its worker names the lease and ends it; so does jobDead, which
// names none. A job that is ended from outside must have no open lease, as under rules version 1, or one that the same
// entry revoked for the same reason: that lease outlives the job.
func (b *leaseBook) jobEnded(e *SeenEvent) {
	now := b.current(e.Job)
	switch {
	case e.Lease != "" && (now == nil || now.id != e.Lease):
		b.say(e, e.Lease, "lease %s is not its open one", e.Lease)
	case now == nil:
	case e.Lease != "" || e.Kind == "jobDead":
		now.ends(e)
	case e.Kind != "jobCompleted" && now.revoked != nil && now.revoked.sameEntry(e) && now.revoked.Reason == e.Reason:
		now.outlives = e
	default:
		b.say(e, now.id, "its lease %s is open, and was not revoked", now.id)
		now.ends(e)
	}
}

// checkLeases checks that each lease ends once, with its job or by itself, and that a lease which outlives its job
// keeps everything that it held until then (SPEC §8.8): its job's next attempt, its unique key, the slots of its keys,
// its schedule's turn, its worker's room.
func checkLeases(v *view) []Anomaly {
	if len(v.Events) >= EventsRetained {
		v.undecided = append(v.undecided, "leases: the oldest events are no longer retained")
		return nil
	}
	b, outlived, open := v.leases, 0, 0
	for _, l := range b.order {
		if l.outlives == nil {
			continue
		}
		if outlived++; l.end != nil {
			continue
		}
		open++
		last := &v.Events[len(v.Events)-1]
		if lease := v.Queues[v.queue[l.job]].LeaseMs; lease > 0 && last.Clock > l.outlives.Clock+lease+sweepLate {
			b.say(l.outlives, l.id, "lease %s outlived it, and has not ended %d ms later: it lasts %d ms", l.id,
				last.Clock-l.outlives.Clock, lease)
		}
	}
	v.figures["leases"], v.figures["leases_outlived"], v.figures["leases_outlived_open"] = len(b.order), outlived, open
	return b.faults
}

// readOutlived prepares the exceptions that SPEC §3.11 allows for leases that outlived their jobs: the end of such a
// lease gives the reason of its revocation, and the event before, of the same entry, reports that its worker was
// suspended.
func (v *view) readOutlived() {
	suspends := make(map[string]*SeenEvent)
	for i := range v.Events {
		e := &v.Events[i]
		if strings.HasSuffix(e.Kind, "StatusChanged") && e.Status == "SUSPENDED" {
			suspends[e.Worker] = e
		}
		if by := suspends[e.Worker]; by != nil && by.sameEntry(e) && v.outlived(e) {
			v.suspended[e.Lease] = e.Worker
		}
	}
}
