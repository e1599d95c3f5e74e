package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// TestRoleLimits: a role limits how much each of its principals owns: a fleet's registers more than the usual number of
// workers, another's fewer, and one without a limit keeps to that number.
func TestRoleLimits(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.rota(t, "auth", "role", "set", "fleet", "--grant", "work", "--max-workers", "2000").want(t, 0)
	c.rota(t, "auth", "role", "set", "few", "--grant", "work", "--max-workers", "3").want(t, 0)
	contains(t, "the list", c.rota(t, "auth", "role", "list").want(t, 0).stdout, "max_workers=2000", "max_workers=3")
	contains(t, "the list", c.rota(t, "auth", "role", "list", "-o", "json").want(t, 0).stdout, `"max_workers": 2000`)
	c.rota(t, "auth", "role", "set", "fleet", "--grant", "work", "--max-workers", "100001").want(t, 2)
	contains(t, "the refusal", c.rota(t, "auth", "role", "set", "fleet", "--grant", "work", "--max-queues", "5").want(t,
		2).stderr, "max_queues", "does not grant queue")

	const wanted = limits.MaxOwnedWorkers + 1
	for _, r := range []struct {
		role      string
		ask, most int
	}{{"fleet", wanted, wanted}, {"worker", wanted, limits.MaxOwnedWorkers}, {"few", 6, 3}} {
		taken, refused := c.registers(t, r.role, c.tokenFile(t, "--role", r.role), r.ask)
		if taken != r.most || refused != r.ask-r.most {
			t.Errorf("role %s: %d workers were accepted and %d refused, of %d", r.role, taken, refused, r.ask)
		}
	}
}

// registers registers n workers with a token, and counts the accepted ones and those that are too many. None stays
// connected.
func (c *nodes) registers(t *testing.T, name string, token []string, n int) (taken, refused int) {
	t.Helper()
	conn, err := grpc.NewClient(c.all[0].API, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(t, err)
	defer conn.Close()
	register := func(i int) error {
		ctx, cancel := context.WithCancel(showing(t, t.Context(), token))
		defer cancel()
		stream, err := rotav1.NewWorkersClient(conn).Work(ctx)
		if err != nil {
			return err
		}
		spec := rota.WorkerSpec{ID: rota.WorkerID(fmt.Sprintf("%s-%d", name, i)),
			Queues: []rota.QueueName{rota.DefaultQueue}, Slots: 1}
		hello := &rotav1.Hello{Worker: words.WorkerSpecToWire(&spec), Secret: handSecret(string(spec.ID))}
		if err := stream.Send(&rotav1.WorkRequest{Message: &rotav1.WorkRequest_Hello{Hello: hello}}); err != nil {
			return err
		}
		if _, err := stream.Recv(); err != nil {
			return words.FromStatus(err)
		}
		return nil
	}
	var next, took, most atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				switch err := register(int(i)); {
				case err == nil:
					took.Add(1)
				case errors.Is(err, rota.ErrExhausted) && rota.ErrorOf(err).Subject == "max_workers":
					most.Add(1)
				default:
					t.Errorf("worker %d of %s: %v", i, name, err)
				}
			}
		})
	}
	all.Wait()
	return int(took.Load()), int(most.Load())
}
