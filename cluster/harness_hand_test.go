package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/internal/peer"
)

// hand is a worker driven by the test: it connects, takes leases and completes them.
type hand struct {
	t      *testing.T
	id     rota.WorkerID
	secret [32]byte
	slots  int32
	// n is the node of the newest stream s.
	n *Node
	s *replica.WorkerSession
	// link, if it numbers connections, belongs to the newest.
	link peer.WorkerLink
}

func newHand(t *testing.T, n *Node, id rota.WorkerID, slots int32) *hand {
	t.Helper()
	h := &hand{t: t, id: id, secret: sha256.Sum256([]byte(id)), slots: slots}
	h.connect(n)
	return h
}

func (h *hand) connect(n *Node) {
	h.t.Helper()
	h.n = n
	if h.link.Connection > 0 {
		h.link.Connection++
	}
	s, err := n.OpenWorker(within(h.t, ample), rota.WorkerSpec{ID: h.id, Queues: []rota.QueueName{rota.DefaultQueue},
		Slots: h.slots}, h.secret[:], false, nil, h.link)
	if err != nil {
		h.t.Fatal(err)
	}
	h.s = s
}

// take waits for at least n leases. It beats now and then: on a busy machine the worker may have been silent long
// enough to get none.
func (h *hand) take(n int) []rota.Assignment {
	h.t.Helper()
	var got []rota.Assignment
	for end := time.Now().Add(ample); len(got) < n; {
		notices, err := noticesOf(within(h.t, 3*time.Second), h.s)
		if errors.Is(err, context.DeadlineExceeded) && time.Now().Before(end) {
			h.beat()
			continue
		}
		if err != nil {
			h.t.Fatalf("worker %s has %d leases of %d: %v", h.id, len(got), n, err)
		}
		for _, x := range notices {
			if x.Assigned != nil {
				got = append(got, *x.Assigned)
			}
		}
	}
	return got
}

// beat beats until it is answered, which it is not while leaders change.
func (h *hand) beat() rota.Clock {
	h.t.Helper()
	for all := within(h.t, ample); ; {
		beaten, err := h.s.Beat(within(h.t, 5*time.Second), 0)
		if err == nil {
			return beaten.Clock
		}
		if all.Err() != nil {
			h.t.Fatalf("worker %s got no answer to its beats: %v", h.id, err)
		}
		_ = h.n.proposer.leader.pause(all, 100*time.Millisecond)
	}
}

func (h *hand) do(verb rota.LeaseVerb, leases ...rota.Assignment) []peer.LeaseAnswer {
	h.t.Helper()
	var commands []peer.LeaseCommand
	for _, a := range leases {
		commands = append(commands, peer.LeaseCommand{Verb: verb, Lease: a.Lease.ID, Job: a.Lease.Job,
			Ordinal: a.Lease.Renewals + 1})
	}
	answers, err := h.s.Do(within(h.t, ample), commands)
	if err != nil {
		h.t.Fatal(err)
	}
	return answers
}

// noticesOf waits for the worker's notices.
func noticesOf(ctx context.Context, s *replica.WorkerSession) ([]peer.Notice, error) {
	if err := s.Await(ctx); err != nil {
		return nil, err
	}
	return s.Take(), nil
}
