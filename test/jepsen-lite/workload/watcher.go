package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

// watcher follows all events through the whole run. One uses the client library, which hides duplicates; the other
// speaks the protocol itself, continues at any node from the last id it saw, and hides nothing.
type watcher struct {
	name string
	// follow runs until ctx ends; its error is a broken promise.
	follow func(ctx context.Context, w *trial, r *rand.Rand, seen *watcher) error

	mu     sync.Mutex
	told   []check.ToldEvent
	breaks int
	err    error
}

func watchers() []*watcher {
	return []*watcher{{name: "watcher-library", follow: watchByLibrary}, {name: "watcher-raw", follow: watchRaw}}
}

func (s *watcher) take(e check.SeenEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, check.BriefOf(&e))
}

// last returns the newest event received.
func (s *watcher) last() rota.EventID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.told) == 0 {
		return rota.EventID{}
	}
	return s.told[len(s.told)-1].ID
}

// watching is the set of all running watchers.
type watching struct {
	all  []*watcher
	stop context.CancelFunc
	done sync.WaitGroup
}

func (w *trial) watch(ctx context.Context) *watching {
	own := *w
	var err error
	if own.badge, err = w.Cluster.NewBadge(ctx, "watcher", fault.RoleWatches, false); err != nil {
		w.Rec.Note("watchers: %v", err)
	}
	ctx, stop := context.WithCancel(ctx)
	k := &watching{all: watchers(), stop: stop}
	for i, s := range k.all {
		r := rand.New(rand.NewPCG(w.Options.Seed, uint64(20_000+i)))
		k.done.Go(func() {
			if err := s.follow(ctx, &own, r, s); err != nil && ctx.Err() == nil {
				s.mu.Lock()
				s.err = err
				s.mu.Unlock()
			}
		})
	}
	return k
}

// catchUp waits until all have received an event, at most for the allowed time, and ends them.
func (k *watching) catchUp(ctx context.Context, to rota.EventID) {
	ctx, cancel := context.WithTimeout(ctx, maxCatchUp)
	defer cancel()
	for _, s := range k.all {
		for s.last().Compare(to) < 0 && fault.Rest(ctx, 50*time.Millisecond) {
		}
	}
	k.stop()
	k.done.Wait()
}

const (
	// maxCatchUp is how long a follower may lag behind a healthy cluster.
	maxCatchUp = 30 * time.Second
	// rawSilence is how long the raw watcher trusts a node that sends nothing.
	rawSilence = 5 * time.Second
)

func watchByLibrary(ctx context.Context, w *trial, _ *rand.Rand, seen *watcher) error {
	c, err := w.Cluster.ClientOf(w.badge)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		filter := rota.EventFilter{After: seen.last(), Follow: true}
		var err error
		for e, failed := range c.Events(ctx, filter) {
			if err = failed; err == nil {
				seen.take(check.EventSeen(&e))
			}
		}
		if rota.KindOf(err) != rota.KindExhausted || !fault.Rest(ctx, 100*time.Millisecond) {
			return err // except for being too slow, which is this machine's fault
		}
		seen.mu.Lock()
		seen.breaks++
		seen.mu.Unlock()
	}
}

func watchRaw(ctx context.Context, w *trial, r *rand.Rand, seen *watcher) error {
	founders := w.Cluster.All()[:w.Cluster.Founders]
	for ctx.Err() == nil {
		s := founders[r.IntN(len(founders))]
		err := tail(ctx, s, w.dialling(), seen.last(), true, seen.take)
		if kind := rota.KindOf(err); kind != rota.KindUnavailable && ctx.Err() == nil {
			return fmt.Errorf("node %s after %s: %w", s.ID, seen.last(), err)
		}
		seen.mu.Lock()
		seen.breaks++
		seen.mu.Unlock()
		fault.Rest(ctx, 100*time.Millisecond)
	}
	return nil
}

// tail is one stream of events from one node. A node that goes away or falls silent is Unavailable; a refusal by the
// node itself keeps its own kind.
func tail(ctx context.Context, s *fault.Server, dialling []grpc.DialOption, after rota.EventID, follow bool,
	take func(check.SeenEvent)) error {
	conn, err := grpc.NewClient("passthrough:///"+s.API, dialling...)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request := &rotav1.TailRequest{Follow: follow}
	if !after.IsZero() {
		request.From = after.String()
	}
	silent := time.AfterFunc(rawSilence, cancel)
	defer silent.Stop()
	stream, err := rotav1.NewEventsClient(conn).Tail(ctx, request)
	if err != nil {
		return endOf(err)
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) && !follow {
			return nil
		}
		if err != nil {
			return endOf(err)
		}
		silent.Reset(rawSilence)
		for _, wire := range m.GetEvents() {
			e, err := servedEvent(wire)
			if err != nil {
				return rota.Refusef(rota.KindInternal, "event", "event %s cannot be read: %v", wire.GetEventId(), err)
			}
			take(check.EventSeen(&e))
		}
	}
}

// servedEvent decodes an event from the wire.
func servedEvent(w *rotav1.ServedEvent) (rota.ServedEvent, error) {
	e := rota.ServedEvent{Event: rota.Event{
		Run: w.GetRunId(), Node: w.GetNodeId(), Clock: rota.Clock(w.GetLogicalTime()), Date: rota.Date(w.GetDateMs()),
		Job: rota.JobID(w.GetJob()), Queue: rota.QueueName(w.GetQueue()), Tenant: rota.TenantID(w.GetTenant()),
		Worker: rota.WorkerID(w.GetWorker()), Session: rota.Session(w.GetSession()), Attempt: w.GetAttempt(),
		Deadline: rota.Moment{Clock: rota.Clock(w.GetDeadlineClockMs()), Date: rota.Date(w.GetDeadlineMs())},
		Epoch:    w.GetPolicyDecisionId(), Check: w.GetCapabilityCheckResult(),
		Payload: w.GetPayload(), Text: w.GetErrorData(), Type: rota.JobType(w.GetType()),
		Actor: rota.Principal(w.GetActor()), Via: w.GetVia(), Request: w.GetRequestId(),
	}, PayloadHash: w.GetPayloadHash()}
	copy(e.Lease[:], w.GetLeaseId())
	all := []error{e.ID.UnmarshalText([]byte(w.GetEventId())), e.Parent.UnmarshalText([]byte(w.GetParentEventId())),
		e.Kind.UnmarshalText([]byte(w.GetKind())), e.Reason.UnmarshalText([]byte(w.GetReason())),
		readHash(&e.Prior, w.GetPriorStateHash()), readHash(&e.Post, w.GetPostStateHash())}
	if status := w.GetStatus(); status != "" {
		all = append(all, e.Status.UnmarshalText([]byte(status)))
	}
	return e, errors.Join(all...)
}

// readHash reads the hash of a state. That of the empty state, before the first entry, is zero, which the wire leaves out.
func readHash(d *rota.Digest, text string) error {
	if text == "" {
		return nil
	}
	return d.UnmarshalText([]byte(text))
}

// endOf classifies the end of a stream: Unavailable where it makes sense to try another node.
func endOf(err error) error {
	switch code := status.Code(err); code {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded, codes.ResourceExhausted:
		return rota.Refusef(rota.KindUnavailable, "", "%v", err)
	default:
		return err
	}
}
