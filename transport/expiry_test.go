package transport

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// endingTable has one token, which ends on a date; after that it is unknown.
type endingTable struct {
	*rightsTable
	ends rota.Date
}

func (e endingTable) Prove(c access.Credential, date rota.Date) (rota.Principal, error) {
	if date >= e.ends {
		return "", rota.Refusef(rota.KindUnauthenticated, "credential", "the credential does not count")
	}
	return e.rightsTable.Prove(c, date)
}

func (e endingTable) Rights(p rota.Principal, date rota.Date) (*access.Rights, error) {
	if date >= e.ends {
		return nil, rota.Refusef(rota.KindUnauthenticated, "credential", "the credential does not count")
	}
	return e.rightsTable.Rights(p, date)
}

// TestExpiry_byTheWallClock checks that at the edge a token ends by the node's own clock, whatever the log's date is:
// calls with it are refused, and its open stream ends.
func TestExpiry_byTheWallClock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		begins := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		var ahead atomic.Int64
		b := setup(t, func(o *Options) { o.Wall = func() time.Time { return begins.Add(time.Duration(ahead.Load())) } })
		table, _, ctx := holder(rota.RightRead)
		b.core.setTable(table)
		b.core.until.Store(int64(rota.DateOf(begins.Add(time.Hour))))
		begun := make(chan struct{})
		b.core.events = func(ctx context.Context, _ rota.EventFilter, _ func(peer.EventBatch) error) error {
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		}
		ask := func() error {
			_, err := b.queues.List(ctx, &rotav1.ListQueuesRequest{})
			return err
		}
		stream, err := rotav1.NewEventsClient(b.conn).Tail(ctx, &rotav1.TailRequest{Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		<-begun
		ahead.Store(int64(time.Hour - time.Millisecond))
		if err := ask(); err != nil {
			t.Errorf("in its last millisecond: %v", err)
		}
		ahead.Store(int64(time.Hour))
		if err := ask(); kindOf(err) != rota.KindUnauthenticated {
			t.Errorf("on its date: %v", err)
		}
		if _, err := stream.Recv(); kindOf(err) != rota.KindUnauthenticated {
			t.Errorf("its stream ended with %v", err)
		}
	})
}
