package check

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// readSuspensions prepares the exceptions that SPEC §3.11 allows: leases that were open when their worker was
// suspended, or lost its token. The events show which leases those are; the operator's record shows that the worker was
// suspended, and when at the earliest. All other leases of the worker, and all those after it was resumed, are judged
// as usual.
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
	v.readOutlived()
}

// revocationsOf returns the revocations of a worker's slot, in the form of suspensions.
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

// trustedUntil returns when a lease's worker was no longer trusted with it: when the suspension that ended the lease
// was requested, which was before any worker began on the job's next one; never for all other leases. Of several
// earlier suspensions it is the last: the worker of the next lease began after all of them.
func (v *view) trustedUntil(job, lease string, token rota.Token) int64 {
	worker, suspended := v.suspended[leaseKeptOf(lease)]
	if !suspended {
		return never
	}
	next := never
	for _, op := range v.jobs[job] {
		if op.Func == OpStart && token.Compare(op.Token) < 0 {
			next = min(next, op.Invoke)
		}
	}
	until := never
	for _, op := range v.suspensions[worker] {
		if op.Invoke <= next {
			until = op.Invoke
		}
	}
	return until
}
