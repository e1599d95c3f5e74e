package check

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

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
	v.readOutlived()
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

// trustedUntil is when a lease's worker began not to be trusted with it: as the suspension that ended the
// lease was asked for, which was before anybody began on the job's next one; never for all other leases.
// Of several suspensions before that it is the last: who began on the next lease began after all of them.
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
