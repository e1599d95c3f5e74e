package check

import (
	"cmp"
	"slices"
	"strings"
)

// pendingMost is how long a suspension whose outcome is unknown may still come.
const pendingMost = int64(15e9)

// suspended readies what SPEC §3.11 excuses: leases that were open when their worker
// was suspended, or lost its token. Which those are, the events say; that somebody did
// that to the worker, and when at the earliest, the operator says. Whatever else the worker holds, and
// whatever it takes after it was resumed, is judged as everybody's.
func (v *view) readSuspensions() {
	v.suspensions, v.suspended = make(map[string][]*Op), make(map[string]string)
	for i := range v.Ops {
		if op := &v.Ops[i]; op.Func == OpSuspend && op.Outcome != Refused {
			v.suspensions[op.Text] = append(v.suspensions[op.Text], op)
		}
	}
	for _, ops := range v.suspensions {
		slices.SortFunc(ops, func(a, b *Op) int { return cmp.Compare(a.Invoke, b.Invoke) })
	}
	for i := range v.Events {
		e := &v.Events[i]
		if e.Kind != "leaseCancelled" {
			continue
		}
		switch e.Reason {
		case "WORKER_SUSPENDED":
			v.suspended[e.Lease] = e.Worker
		case "ACCESS_ENDED":
			hand, _, _ := strings.Cut(e.Worker, "-")
			v.suspended[e.Lease], v.suspensions[hand] = hand, v.revocationsOf(hand)
		}
	}
}

// revocationsOf are those of a worker's place, as suspensions are kept.
func (v *view) revocationsOf(hand string) (ops []*Op) {
	for _, r := range v.Revocations {
		if r.Holder != hand || r.Asked == 0 {
			continue
		}
		op := &Op{Invoke: r.Asked, Return: never}
		if r.Acknowledged > 0 {
			op.Return = r.Acknowledged
		}
		ops = append(ops, op)
	}
	slices.SortFunc(ops, func(a, b *Op) int { return cmp.Compare(a.Invoke, b.Invoke) })
	return ops
}

// trustedUntil is when a lease's worker began not to be trusted with it: the moment
// from which the suspension that ended the lease may have taken effect; never for
// all other leases. since is when the worker began on it.
func (v *view) trustedUntil(lease string, since int64) int64 {
	worker, excused := v.suspended[leaseKeptOf(lease)]
	ops := v.suspensions[worker]
	if !excused || len(ops) == 0 {
		return never
	}
	for _, op := range ops {
		if until := min(op.Return, op.Invoke+pendingMost); until >= since {
			return op.Invoke
		}
	}
	return since // it was given out before, and came late
}
