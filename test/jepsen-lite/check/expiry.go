package check

import (
	"cmp"
	"fmt"
	"slices"
)

const (
	// settling is how long a fault may have effects after it ended: an election and the calls that waited for it.
	settling = int64(4e9)
	// rejoining is how long a single node's return may have effects.
	rejoining = int64(1e9)
	// slackLost is subtracted from a lease's slack: the view's margin, a beat.
	slackLost = int64(3e9)
)

// checkExpiry looks at every lease that an honest worker lost to time. It is excused if the worker, or a node that it
// was connected to, was struck; or if the cluster was disturbed for longer than the lease's slack, which is the time
// that remains of it when the library asks for a renewal.
func checkExpiry(v *view) (found []Anomaly) {
	lost, excused := 0, 0
	disturbances := v.disturbances()
	for _, a := range v.attempts {
		if a.lost == nil || !slices.Contains([]string{"NONE", "LEASE_EXPIRED", "ACK_TIMEOUT", "WORKER_LOST"},
			a.lost.Kind) || v.cancelled(a) {
			continue
		}
		lost++
		lease := v.Queues[v.queue[a.job]].LeaseMs * 1e6
		at := a.lost.Invoke
		_, suspended := v.suspended[leaseKeptOf(a.lease)]
		if lease == 0 || suspended || v.struck(a, span{at - lease - settling, at}) ||
			overlap(span{at - lease, at}, disturbances) > max(0, lease*4/10-slackLost) {
			excused++
			continue
		}
		found = append(found, Anomaly{IDs: []string{a.job, a.lease}, At: at, Text: fmt.Sprintf(
			"%s lost its lease of job %s at %s (%s, %s), but neither it nor its node was struck", a.process, a.job,
			seconds(at), a.lost.Kind, a.lost.Text)})
	}
	v.figures["leases_lost_to_time"], v.figures["leases_lost_excused"] = lost, excused
	return found
}

// cancelled reports whether a lease was ended by a user's request: a worker whose own request met that one is refused,
// and gets the reason only in the text.
func (v *view) cancelled(a *attempt) bool {
	job := v.final[a.job]
	return a.lost.Kind == "NONE" && job != nil && slices.ContainsFunc(job.Attempts, func(f FinalAttempt) bool {
		return f.Lease == a.lease && (f.End == "CANCELLED" || f.End == "WORKFLOW_CANCELLED")
	})
}

// disturbances are the times when the cluster may have had no leader that commits: until the others have elected one
// where a single node was struck, otherwise to the end of the fault and an election after it.
func (v *view) disturbances() (spans []span) {
	for _, f := range v.Faults {
		switch {
		case slices.Contains([]string{"kill-worker", "pause-worker", "worker-cut", "unplug-worker", "snapshot-save",
			"revoke-token"}, f.Nemesis):
		case WallFault(f.Nemesis) || badLinkOf(&f,
			"w"): // no lease is counted by a wall clock, nor cluster held up by a worker
		case badLinkOf(&f, "n") && f.stalls(): // enough packets arrive to be elected, or stay so
			spans = append(spans, span{f.From, f.To + settling})
		case len(f.Targets) == 1 && f.Nemesis != "rolling-restart" && f.Nemesis != "flapping":
			spans = append(spans, span{f.From, f.From + settling}, span{f.To, f.To + rejoining})
		default:
			spans = append(spans, span{f.From, f.To + settling})
		}
	}
	return spans
}

// struck reports whether the attempt's worker or a node of it was faulty during a time.
func (v *view) struck(a *attempt, s span) bool {
	if v.turnedAway(a.hand, s) {
		return true
	}
	names := append(v.connectedTo(a.process, s), a.hand)
	for _, who := range names {
		if overlap(s, v.away(who)) > 0 {
			return true
		}
		for _, c := range v.Cuts {
			if (c.From == who || c.To == who) && c.Begin < s.to && c.End+settling > s.from {
				return true
			}
		}
		for _, b := range v.BadLinks { // a link that is only slow is not an excuse
			if b.Stalls && (b.From == who || b.To == who) && b.Begin < s.to && b.End+settling > s.from {
				return true
			}
		}
	}
	return false
}

// connectedTo lists the nodes that a worker process was connected to in a time.
func (v *view) connectedTo(process string, s span) (nodes []string) {
	at, since := "", int64(0)
	for _, op := range v.connects[process] {
		if at != "" && since < s.to && op.Invoke > s.from {
			nodes = append(nodes, at)
		}
		at, since = op.Node, op.Invoke
	}
	if at != "" && since < s.to {
		nodes = append(nodes, at)
	}
	return nodes
}

// overlap returns how much of a stretch the union of others covers.
func overlap(s span, others []span) (total int64) {
	others = slices.Clone(others)
	slices.SortFunc(others, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	at := s.from
	for _, o := range others {
		from, to := max(at, o.from), min(s.to, o.to)
		if from < to {
			total += to - from
			at = to
		}
	}
	return total
}
