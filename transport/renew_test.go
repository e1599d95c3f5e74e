package transport

import (
	"context"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// renewing is a session that renews as the state machine does (SPEC §8.2).
type renewing struct {
	WorkerSession
	at    rota.Clock
	lease rota.Clock
	held  *rota.Lease
	late  int
}

func (s *renewing) Do(_ context.Context, commands []peer.LeaseCommand) ([]peer.LeaseAnswer, error) {
	l := s.held
	if l.Renewals == 4 { // a rejected renewal is not late
		return []peer.LeaseAnswer{{Err: rota.Refusef(rota.KindConflict, "lease", "renewals_max")}}, nil
	}
	if s.at > l.RenewBy.Clock {
		s.late++
	}
	l.Renewals++
	l.Deadline.Clock = min(l.Deadline.Clock+s.lease/2, s.at+s.lease)
	l.RenewBy.Clock = l.Deadline.Clock - s.lease*4/10
	return []peer.LeaseAnswer{{Deadline: l.Deadline.Clock, Renewals: l.Renewals}}, nil
}

// TestRenewHeld_shortLeases checks a worker that beats through short leases: with its four renewals, each lease lasts
// most of the possible time, and none is renewed late if beats are as frequent as the guide states.
func TestRenewHeld_shortLeases(t *testing.T) {
	for _, c := range []struct {
		lease, beat, least rota.Clock
		late               int
	}{{10_000, 600, 24_000, 0}, {10_000, 2_000, 26_000, 0}, {15_000, 5_000, 44_000, 4}, {15_000, 3_000, 37_000,
		0}, {60_000, 5_000, 160_000, 0}} {
		lease := &rota.Lease{ID: rota.LeaseID{1}, Acked: rota.Moment{Clock: 1}}
		lease.Deadline.Clock, lease.RenewBy.Clock = c.lease, c.lease*6/10
		s := &renewing{lease: c.lease, held: lease}
		for ; s.at < lease.Deadline.Clock; s.at += c.beat {
			open := []rota.Assignment{{Lease: *lease, LeaseFor: time.Duration(c.lease) * time.Millisecond}}
			if err := renewHeld(context.Background(), s, open, held{known: map[rota.LeaseID]bool{lease.ID: true}},
				s.at); err != nil {
				t.Fatal(err)
			}
		}
		if lease.Deadline.Clock < c.least || s.late > c.late {
			t.Errorf("a lease of %d ms with a beat every %d ms ends at %d, %d is the least; %d renewals are late",
				c.lease, c.beat, lease.Deadline.Clock, c.least, s.late)
		}
	}
}
