package loadgen

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// Lab has what all measurements share.
type Lab struct {
	// Client calls the cluster, whose nodes are Addrs. Dial opens a separate connection for each worker.
	Client *client.Client
	Addrs  []string
	Dial   func(addrs []string, more ...client.Option) (*client.Client, error)
	// AdminTLS returns the settings for an admin port, nil for plain HTTP.
	AdminTLS func(addr string) (*tls.Config, error)
	// Talk reports problems during a measurement.
	Talk func(format string, args ...any)
	// Watch shows value's progress to total until stop is called.
	Watch func(what string, total int64, value func() int64) (stop func())
}

// newRun names one measurement: ids of two runs are never equal.
func newRun(kind string) string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return kind + "-" + hex.EncodeToString(b[:])
}

// left reports how far an aborted run came, and how to remove the jobs that it leaves behind.
func (l *Lab) left(ledger *Ledger) {
	sent := ledger.submitted()
	if sent == 0 {
		return
	}
	accepted, completed := ledger.accepted.Load(), ledger.completed.Load()
	l.Talk("%s ended early: %d of %d jobs were submitted, %d accepted, %d completed", ledger.prefix, sent,
		len(ledger.jobs), accepted, completed)
	if accepted == completed && int64(sent) == accepted {
		return
	}
	l.Talk("what is left of them goes with: while ids=$(rota job list --filter 'id=%s-* -state=COMPLETED,DEAD,EXPIRED,CANCELLED' --limit 1000 -o name) "+
		"&& [ -n \"$ids\" ]; do rota job cancel $ids; done", ledger.prefix)
}

// EnsureQueues creates all missing queues with the standard preset, several at a time.
func (l *Lab) EnsureQueues(ctx context.Context, names ...rota.QueueName) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, name := range names {
		group.Go(func() error {
			_, err := l.Client.Queue(ctx, name)
			if rota.KindOf(err) == rota.KindNotFound {
				_, err = l.Client.SetQueue(ctx, name, "standard", nil)
			}
			return err
		})
	}
	return group.Wait()
}

// keyName is the name of the jobs' keys.
const keyName = "bench"

// ready creates the missing queues, and the rule of the jobs' keys and their budget if they have some. These are so
// wide that they delay nothing: the cost of counting is measured.
func (l *Lab) ready(ctx context.Context, f *Filling, queues []rota.QueueName) error {
	if err := l.EnsureQueues(ctx, queues...); err != nil || f.Keys == 0 && !f.Costs {
		return err
	}
	rule := rota.KeyRule{Name: keyName, Concurrency: rota.MaxKeyConcurrency}
	if f.Costs {
		rule.Unit, rule.Rate, rule.PeriodMs = keyName, rota.MaxCost/rota.CostUnit, 1000
		if _, err := l.Client.Budgets().Set(ctx, rota.Budget{Name: keyName, Unit: keyName, Limit: rota.MaxCost}); err != nil {
			return err
		}
	}
	return l.Client.Keys().SetRule(ctx, rule)
}

// queueNames returns n names: the first, and that name with the suffixes -1, -2 and so on.
func queueNames(first string, n int) []rota.QueueName {
	names := []rota.QueueName{rota.QueueName(first)}
	for i := 1; i < n; i++ {
		names = append(names, rota.QueueName(fmt.Sprintf("%s-%d", first, i)))
	}
	return names
}

// pause waits, or ends with ctx.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
