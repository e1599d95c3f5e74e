package fsm

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// TestLanes checks that the largest lanes come first, no more than requested, each with its reason, and that a tenant's
// reader gets only its own; a naive count of the pending jobs is the same.
func TestLanes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(tenantOp("acme", "max_concurrent", "1"))
	of := func(tenant rota.TenantID, typ rota.JobType) func(*rota.JobSpec) {
		return func(s *rota.JobSpec) { s.Tenant, s.Type = tenant, typ }
	}
	b.leased("first", "w", of("acme", "echo"))
	for i := range 9 {
		b.submit(fmt.Sprintf("a%d", i), of("acme", "echo"))
	}
	for i := range 4 {
		b.submit(fmt.Sprintf("b%d", i), of("bolt", "echo"))
	}
	for i := range 30 {
		b.submit(fmt.Sprintf("c%d", i), of("cole", rota.JobType(fmt.Sprintf("t%d", i))),
			func(s *rota.JobSpec) { s.Requires = []string{"gpu"} })
	}
	list, ok := LanesOf(&b.View, peer.LanesQuery{Queue: "default", Most: 3}, nil)
	if !ok || list.Lanes != 32 || list.Throttled != 1 || len(list.First) != 3 {
		t.Fatalf("%v: %+v", ok, list)
	}
	acme, bolt, cole := list.First[0], list.First[1], list.First[2]
	if acme.Tenant != "acme" || acme.Jobs != 9 || !acme.Throttled || acme.Head != "a0" ||
		acme.Reasons[0].Reason != "TENANT_AT_LIMIT" {
		t.Errorf("the largest is %+v", acme)
	}
	if bolt.Tenant != "bolt" || bolt.Jobs != 4 || bolt.Throttled {
		t.Errorf("the second is %+v", bolt)
	}
	if cole.Jobs != 1 || len(cole.Reasons) == 0 || cole.Reasons[0].Reason == "" {
		t.Errorf("the third is %+v", cole)
	}
	all, _ := LanesOf(&b.View, peer.LanesQuery{Queue: "default", Most: 100}, nil)
	type place struct {
		tenant rota.TenantID
		typ    rota.JobType
	}
	waiting := make(map[place]int64)
	b.JobTable.Scan(func(_ rota.JobID, j *state.JobRow) bool {
		if j.State == rota.JobQueued {
			waiting[place{j.Spec.Tenant, j.Spec.Type}]++
		}
		return true
	})
	for _, l := range all.First {
		if at := (place{l.Tenant, l.Type}); waiting[at] != l.Jobs {
			t.Errorf("%v has %d jobs, %d wait", at, l.Jobs, waiting[at])
		}
	}
	if len(all.First) != len(waiting) || !slices.IsSortedFunc(all.First,
		func(x, y peer.Lane) int { return cmp.Compare(y.Jobs, x.Jobs) }) {
		t.Errorf("%d lanes of %d: %+v", len(all.First), len(waiting), all.First)
	}
	aged, _ := LanesOf(&b.View, peer.LanesQuery{Queue: "default", Most: 2, Oldest: true}, nil)
	if len(aged.First) != 2 || aged.First[0].Oldest != "a0" || aged.First[1].Oldest != "b0" ||
		aged.First[0].OldestWait < aged.First[1].OldestWait {
		t.Errorf("those that wait longest are %+v", aged.First)
	}
	own, _ := LanesOf(&b.View, peer.LanesQuery{Queue: "default", Most: 100},
		access.ReaderOf([]rota.Grant{{Right: rota.RightRead, Tenant: "bolt", Queue: access.Everything}}))
	if len(own.First) != 1 || own.First[0].Tenant != "bolt" || own.Lanes != 0 {
		t.Errorf("a tenant's reader sees %+v", own)
	}
	if _, ok := LanesOf(&b.View, peer.LanesQuery{Queue: "none", Most: 1}, nil); ok {
		t.Error("an unknown queue has lanes")
	}
}
