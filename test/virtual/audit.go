package virtual

import (
	"context"
	"fmt"
	"hash/fnv"
	"sort"
	"strings"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// audit checks the whole life at its end: every job acknowledged to users, on every node, and the events of every node.
func (l *life) audit() {
	if len(l.violations) > 0 {
		return
	}
	l.ledger.mu.Lock()
	ids := make([]rota.JobID, 0, len(l.ledger.jobs))
	for id := range l.ledger.jobs {
		ids = append(ids, id)
	}
	l.ledger.mu.Unlock()
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	ctx, cancel := context.WithTimeout(l.ctx, time.Minute)
	defer cancel()
	for i, s := range l.servers {
		n := s.node()
		for _, id := range ids {
			job, _, err := n.Job(ctx, id, peer.ReadOptions{Stale: true})
			switch {
			case rota.KindOf(err) == rota.KindNotFound:
				l.ledger.judge(id, nil)
			case err != nil:
				l.violate("a job can be read", "%s on %s: %v", id, s.id(), err)
			case !job.State.Terminal():
				l.violate("a drained cluster has no open job", "%s on %s is %s", id, s.id(), job.State)
			default:
				l.ledger.judge(id, &job)
			}
		}
		l.flowsOf(ctx, s)
		l.events(ctx, i)
	}
	l.sameEvents()
	l.judgePieces(ctx)
}

// events reads all events of one node: each job ends exactly once, except for the runs that users requested, and in its
// time. The events are kept for comparison.
func (l *life) events(ctx context.Context, at int) {
	c := l.dial("audit", l.servers[at:at+1])
	defer c.Close()
	ended, runs := make(map[rota.JobID]int), make(map[rota.JobID]int)
	began := make(map[rota.JobID]rota.Clock)
	var sums []uint64
	hash := fnv.New64a()
	var err error
	for e, failed := range c.Events(ctx, rota.EventFilter{}) {
		if err = failed; err != nil {
			break
		}
		fmt.Fprintln(hash, e.ID, e.Kind, e.Job, e.Lease, e.Clock, e.Post)
		sums = append(sums, hash.Sum64())
		l.steadyEvent(&e.Event)
		if at == 0 && !l.ledger.isPlain(e.Run) {
			l.ledger.kept.With(func(h *check.History) { h.Events = append(h.Events, check.EventSeen(&e)) })
		}
		switch e.Kind {
		case rota.EventJobEnqueued:
			if _, known := began[e.Job]; !known {
				began[e.Job] = e.Clock
			}
		case rota.EventJobCompleted, rota.EventJobDead, rota.EventJobExpired, rota.EventJobCancelled:
			ended[e.Job]++
			if ended[e.Job] > 1+runs[e.Job] {
				l.violate("a job ends once", "%s ended %d times by the events, with %d retries asked", e.Job,
					ended[e.Job], runs[e.Job])
			}
			l.ledger.mu.Lock()
			if rec := l.ledger.jobs[e.Job]; rec != nil {
				runs[e.Job] = rec.retried
				l.inTime(&e.Event, rec, time.Duration(e.Clock-began[e.Job])*time.Millisecond)
			}
			l.ledger.mu.Unlock()
		}
	}
	if err != nil && l.ctx.Err() == nil {
		l.violate("events can be read", "on %s: %v", l.servers[at].id(), err)
		return
	}
	l.told = append(l.told, sums)
	l.figures.events = len(sums)
}

// expiresWithin is how long after its time to live a job may end, in cluster clock: one sweep, after earlier work.
const expiresWithin = 2 * time.Second

// inTime checks the end of a job with a time to live (SPEC §9.3): the clock counts, not the date.
func (l *life) inTime(e *rota.Event, rec *jobRecord, lived time.Duration) {
	switch {
	case rec.ttl == 0 || rec.retried > 0:
	case e.Kind == rota.EventJobExpired && lived < rec.ttl:
		l.violate("no job expires before its time", "job %s expired after %s: its time to live is %s", e.Job, lived,
			rec.ttl)
	case lived > rec.ttl+expiresWithin:
		l.violate("a job expires in its time", "job %s ended %s after its submission: its time to live is %s", e.Job,
			lived, rec.ttl)
	}
}

// sameEvents compares the nodes' events, as far as all have them: workers continue during the reads.
func (l *life) sameEvents() {
	least := -1
	for _, sums := range l.told {
		if least < 0 || len(sums) < least {
			least = len(sums)
		}
	}
	for i, sums := range l.told {
		if least > 0 && sums[least-1] != l.told[0][least-1] {
			l.violate("all nodes tell the same events", "of the first %d, %s has others than %s", least,
				l.servers[i].id(), l.servers[0].id())
		}
	}
}

// figures holds the counts of a life.
type figures struct {
	virtual                 time.Duration
	faults                  map[string]int
	jobs, settled, verified int
	violations, events      int
	// flows counts the workflows submitted, claims the requests made for leases of others, installs the snapshots that
	// another node sent.
	flows, claims, installs int
	// refusedIDs counts nodes that came back under an id that is no longer theirs.
	refusedIDs                 int
	leaderAfter, drainedAfter  time.Duration
	minCalm, maxCalm           float64
	minFlap                    float64
	orphaned                   int
	maxOrphan                  time.Duration
	started, lost, completed   int
	submitted, unknown, starts int
	// pieces counts the user actions that pieces.go checks.
	pieces int
}

func (f *figures) rates(when string, rate float64) {
	if strings.Contains(when, "stable") {
		if f.minCalm == 0 || rate < f.minCalm {
			f.minCalm = rate
		}
		f.maxCalm = max(f.maxCalm, rate)
		return
	}
	if f.minFlap == 0 || rate < f.minFlap {
		f.minFlap = rate
	}
}

func (f *figures) orphans(took time.Duration) {
	f.orphaned++
	f.maxOrphan = max(f.maxOrphan, took)
}

// add sums the figures of several lives.
func (f *figures) add(g figures) {
	if f.faults == nil {
		f.faults = make(map[string]int)
	}
	for kind, n := range g.faults {
		f.faults[kind] += n
	}
	f.virtual += g.virtual
	f.jobs, f.settled, f.verified = f.jobs+g.jobs, f.settled+g.settled, f.verified+g.verified
	f.violations, f.events = f.violations+g.violations, f.events+g.events
	f.leaderAfter, f.drainedAfter = max(f.leaderAfter, g.leaderAfter), max(f.drainedAfter, g.drainedAfter)
	if g.minCalm > 0 {
		f.rates("stable", g.minCalm)
		f.rates("stable", g.maxCalm)
	}
	if g.minFlap > 0 {
		f.rates("flapping", g.minFlap)
	}
	f.orphaned, f.maxOrphan = f.orphaned+g.orphaned, max(f.maxOrphan, g.maxOrphan)
	f.started, f.lost, f.completed = f.started+g.started, f.lost+g.lost, f.completed+g.completed
	f.refusedIDs += g.refusedIDs
	f.flows, f.claims, f.installs = f.flows+g.flows, f.claims+g.claims, f.installs+g.installs
	f.pieces += g.pieces
	f.submitted, f.unknown, f.starts = f.submitted+g.submitted, f.unknown+g.unknown, f.starts+g.starts
}

func (f *figures) allFaults() (all int) {
	for _, n := range f.faults {
		all += n
	}
	return all
}

// operations counts the requests of users, workers and hostile clients.
func (f *figures) operations() int {
	return f.submitted + f.unknown + f.flows + f.claims + f.started + f.completed
}

// faultsAnHour is the minimum for a run: 3,000 in ten hours.
const faultsAnHour = 300

// short reports what a run lacks of the requested amount, "" for nothing.
func (f *figures) short(asked time.Duration) string {
	wanted := int(faultsAnHour * asked.Hours())
	if f.virtual < asked || f.allFaults() < wanted || f.operations() == 0 {
		return fmt.Sprintf(
			"%s of virtual time with %d faults and %d operations: at least %s with %d faults are asked for",
			f.virtual, f.allFaults(), f.operations(), asked, wanted)
	}
	return ""
}

// String returns the summary line.
func (f *figures) String() string {
	kinds := make([]string, 0, len(f.faults))
	for kind, n := range f.faults {
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, n))
	}
	sort.Strings(kinds)
	return fmt.Sprintf(
		"virtual: %.2f virtual hours, %d faults (%s), %d operations: %d jobs and %d workflows submitted (%d unknown answers repeated), %d keys, unique keys, batches, plans and gated workflows, "+
			"%d handlers began, %d leases lost, %d completions taken, %d claims to leases of others, "+
			"%d node starts, %d ids that came back refused, %d snapshots installed, %d events, settled %d times "+
			"(leader within %s, drained within %s, clock rate %.3f to %.3f, with leader changes %.3f at least), "+
			"%d leases of dead workers ended within %s and three times the outage, %d verdicts, %d violations",
		f.virtual.Hours(), f.allFaults(), strings.Join(kinds, ", "), f.operations(), f.submitted, f.flows, f.unknown,
		f.pieces, f.started, f.lost, f.completed,
		f.claims, f.starts, f.refusedIDs, f.installs, f.events, f.settled, f.leaderAfter.Round(time.Millisecond),
		f.drainedAfter.Round(time.Millisecond), f.minCalm, f.maxCalm,
		f.minFlap, f.orphaned, f.maxOrphan.Round(time.Millisecond), f.verified, f.violations)
}
