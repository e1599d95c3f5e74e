package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
)

// called returns the context of a call by a principal.
func called(ctx context.Context, by rota.Principal) context.Context {
	return context.WithValue(ctx, access.CallerKey{}, access.Caller{Actor: by, Via: "test", Request: "r"})
}

// TestRevocation_races: 1,000 submissions with one token arrive at three nodes while it is revoked. None is applied
// after the revocation, whatever its answer is, and all nodes agree.
func TestRevocation_races(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	b.loyal() // a submission whose answer is lost with a leader is rejected when repeated
	id := strings.Repeat("a", 12)
	local := called(within(t, ample), rota.Local)
	token := &fsmpb.CreateToken{Id: id, Hash: make([]byte, 32), Roles: []string{access.RoleSubmitter},
		ExpiresMs: time.Now().Add(time.Hour).UnixMilli()}
	if _, _, err := b.leader().proposer.proposeOne(local,
		&fsmpb.Op{Op: &fsmpb.Op_CreateToken{CreateToken: token}}); err != nil {
		t.Fatal(err)
	}
	holder := called(within(t, ample), rota.TokenPrincipal(id))
	const writers, each = 10, 100
	var mu sync.Mutex
	var taken []rota.Submitted
	var done, refused atomic.Int64
	half := make(chan struct{})
	var all sync.WaitGroup
	for w := range writers {
		n := b.node(b.ids()[w%3])
		all.Go(func() {
			for i := range each {
				out, err := n.Submit(holder, specs(fmt.Sprintf("w%d-%d", w, i), 1))
				switch {
				case err != nil:
					t.Errorf("%v", err)
				case out[0].Err == nil:
					mu.Lock()
					taken = append(taken, out[0])
					mu.Unlock()
				case rota.KindOf(out[0].Err) == rota.KindUnauthenticated:
					refused.Add(1)
				default:
					t.Errorf("%v", out[0].Err)
				}
				if done.Add(1) == writers*each/4 {
					close(half)
				}
			}
		})
	}
	<-half
	_, revoked, err := b.follower().proposer.proposeOne(local,
		&fsmpb.Op{Op: &fsmpb.Op_RevokeToken{RevokeToken: &fsmpb.RevokeToken{Id: id}}})
	if err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if refused.Load() == 0 || len(taken) == 0 {
		t.Fatalf("%d submissions were accepted, %d refused: the revocation did not race with them", len(taken),
			refused.Load())
	}
	for _, s := range taken {
		if s.Index > revoked {
			t.Errorf("job %s was accepted at %d, the token was revoked at %d", s.ID, s.Index, revoked)
		}
	}
	enqueued := 0
	for _, e := range tail(t, b.follower(), rota.EventFilter{Kinds: []rota.EventKind{rota.EventJobEnqueued}}) {
		enqueued++
		if e.ID.Index > revoked {
			t.Errorf("event %s is of an entry after the revocation at %d", e.ID, revoked)
		}
	}
	if enqueued != len(taken) {
		t.Errorf("events report %d jobs, %d were acknowledged", enqueued, len(taken))
	}
	if v, err := b.follower().Verify(within(t, ample)); err != nil || !v.Equal {
		t.Errorf("%+v, %v", v, err)
	}
}
