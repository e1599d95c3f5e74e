package cluster

import (
	"errors"
	"testing"

	"context"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// TestMove_deliversNoOthersJobs: a worker that is registered again under a credential for other tenants receives
// nothing about the jobs that it had leased for the previous ones, by stream and by poll. The stream and the poll of
// the old credential learn that the lease is revoked. They learn of no later lease.
func TestMove_deliversNoOthersJobs(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	l, f := b.leader(), b.follower()
	local := called(within(t, ample), rota.Local)
	for _, tenant := range []string{"ann", "bob"} {
		role := &fsmpb.SetRole{Name: tenant, Grants: []*fsmpb.Grant{{Right: uint32(rota.RightWork), Tenant: tenant,
			Queue: access.Everything}}}
		if _, _, err := l.proposer.proposeOne(local, &fsmpb.Op{Op: &fsmpb.Op_SetRole{SetRole: role}}); err != nil {
			t.Fatal(err)
		}
	}
	secret := []byte("a secret of the worker's own")
	open := func(n *Node, by rota.Principal) *replica.WorkerSession {
		t.Helper()
		s, err := n.OpenWorker(called(within(t, ample), by),
			rota.WorkerSpec{ID: "w", Queues: []rota.QueueName{rota.DefaultQueue}, Slots: 4},
			secret, false, nil, peer.WorkerLink{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ann, bob := rota.CertPrincipal("ann", "w"), rota.CertPrincipal("bob", "w")
	submit := func(tenant rota.TenantID) {
		t.Helper()
		spec := specs("of-"+string(tenant), 1)
		spec[0].Tenant, spec[0].Payload = tenant, []byte("secret of "+tenant)
		if out, err := l.Submit(within(t, ample), spec); err != nil || out[0].Err != nil {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	next := func(s *replica.WorkerSession) (all []peer.Notice) {
		t.Helper()
		for len(all) == 0 {
			notices, err := noticesOf(within(t, ample), s)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, notices...)
		}
		return all
	}
	old := open(f, ann)
	polled, err := f.AttachWorker(called(within(t, ample), ann), "w", secret)
	if err != nil {
		t.Fatal(err)
	}
	submit("ann")
	given := next(old)
	if len(given) != 1 || given[0].Assigned == nil || given[0].Assigned.Spec.Tenant != "ann" {
		t.Fatalf("%+v", given)
	}
	lease := given[0].Assigned.Lease

	moved := open(l, bob)
	if moved.Session() != old.Session() {
		t.Fatalf("session %d became %d", old.Session(), moved.Session())
	}
	if got := next(moved); len(got) != 1 || got[0].Revoked == nil ||
		*got[0].Revoked != (peer.LeaseEnd{Lease: lease.ID, Reason: rota.ReasonAccessEnded}) {
		t.Errorf("the new credential is sent %+v", got)
	}
	st, err := moved.Standing(within(t, ample), peer.ReadOptions{})
	if err != nil || len(st.Leases) != 1 || st.Leases[0].Spec.ID != "" || st.Leases[0].Spec.Payload != nil {
		t.Errorf("a poll of the new credential returns %+v, %v", st, err)
	}

	submit("bob")
	if got := next(moved); len(got) != 1 || got[0].Assigned == nil || got[0].Assigned.Spec.Tenant != "bob" {
		t.Errorf("the new credential is sent %+v", got)
	}
	if st, err := polled.Standing(within(t, ample), peer.ReadOptions{}); rota.KindOf(err) != rota.KindUnavailable ||
		len(st.Leases) != 0 {
		t.Errorf("a poll of the credential before returns %+v, %v", st, err)
	}
	for {
		ctx, cancel := context.WithTimeout(t.Context(), ample)
		got, err := noticesOf(ctx, old)
		cancel()
		if rota.KindOf(err) == rota.KindUnavailable && !errors.Is(err, context.DeadlineExceeded) {
			break
		}
		// The old stream may report its revoked lease, so that the handler stops, and nothing else.
		revoked := len(got) == 1 && got[0].Revoked != nil &&
			*got[0].Revoked == (peer.LeaseEnd{Lease: lease.ID, Job: lease.Job, Reason: rota.ReasonAccessEnded})
		if err != nil || len(got) > 0 && !revoked {
			t.Fatalf("the credential before is sent %+v, %v", got, err)
		}
	}
}
