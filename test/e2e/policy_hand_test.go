package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// hand is a worker that speaks the protocol itself and sends only beats unless the test calls it: it can leave a lease
// unacknowledged, renew it at any time, and receive its end, all of which the client library would handle.
type hand struct {
	t      testing.TB
	id     rota.WorkerID
	stream grpc.BidiStreamingClient[rotav1.WorkRequest, rotav1.WorkResponse]
	sends  sync.Mutex
	taken  chan rota.Lease

	mu       sync.Mutex
	sequence uint64
	answers  map[uint64]chan *rotav1.LeaseAnswers
	ended    map[rota.LeaseID]rota.Reason
	revoked  map[rota.LeaseID]rota.Reason
}

// hand connects such a worker to a node.
func (c *nodes) hand(t testing.TB, n *node, id string, queue rota.QueueName, slots int32) *hand {
	t.Helper()
	return c.handOf(t, n, nil, id, queue, slots)
}

// handOf is hand with a token: the result of tokenFile.
func (c *nodes) handOf(t testing.TB, n *node, token []string, id string, queue rota.QueueName, slots int32) *hand {
	t.Helper()
	conn, err := grpc.NewClient(n.API, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(t, err)
	ctx, cancel := context.WithCancel(showing(t, context.Background(), token))
	h := &hand{t: t, id: rota.WorkerID(id), taken: make(chan rota.Lease, 1000),
		answers: make(map[uint64]chan *rotav1.LeaseAnswers),
		ended:   make(map[rota.LeaseID]rota.Reason), revoked: make(map[rota.LeaseID]rota.Reason)}
	h.stream, err = rotav1.NewWorkersClient(conn).Work(ctx)
	check(t, err)
	spec := rota.WorkerSpec{ID: h.id, Queues: []rota.QueueName{queue}, Slots: slots}
	hello := &rotav1.Hello{Worker: words.WorkerSpecToWire(&spec), Secret: handSecret(id)}
	check(t, h.stream.Send(&rotav1.WorkRequest{Message: &rotav1.WorkRequest_Hello{Hello: hello}}))
	first, err := h.stream.Recv()
	check(t, err)
	if first.GetWelcome() == nil {
		t.Fatalf("worker %s is answered %v instead of a welcome", id, first)
	}
	var lives sync.WaitGroup
	lives.Go(h.hear)
	lives.Go(func() { h.beat(ctx) })
	t.Cleanup(func() {
		cancel()
		lives.Wait()
		_ = conn.Close()
	})
	return h
}

// showing returns a context whose calls present a token; it does nothing without a token.
func showing(t testing.TB, ctx context.Context, token []string) context.Context {
	t.Helper()
	if len(token) == 0 {
		return ctx
	}
	text, err := os.ReadFile(token[1])
	check(t, err)
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(text)))
}

// handSecret returns the secret that proves a hand's session.
func handSecret(id string) []byte { return []byte("a secret of many bytes: " + id) }

// hear receives the node's messages until the stream ends.
func (h *hand) hear() {
	for {
		response, err := h.stream.Recv()
		if err != nil {
			return
		}
		h.mu.Lock()
		if a := response.GetAnswers(); a != nil {
			if to := h.answers[a.GetSequence()]; to != nil {
				to <- a
			}
		}
		notices, err := words.NoticesFromWire(response.GetNotices())
		for _, n := range notices {
			switch {
			case n.Assigned != nil:
				h.taken <- n.Assigned.Lease
			case n.Ended != nil:
				h.ended[n.Ended.Lease] = n.Ended.Reason
			case n.Revoked != nil:
				h.revoked[n.Revoked.Lease] = n.Revoked.Reason
			}
		}
		h.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (h *hand) beat(ctx context.Context) {
	tick := time.NewTicker(limits.BeatEvery)
	defer tick.Stop()
	for n := uint64(1); ; n++ {
		_ = h.put(&rotav1.WorkRequest{Message: &rotav1.WorkRequest_Beat{Beat: &rotav1.Beat{Sequence: n}}})
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (h *hand) put(request *rotav1.WorkRequest) error {
	h.sends.Lock()
	defer h.sends.Unlock()
	return h.stream.Send(request)
}

// serves expects the next lease to be of this job.
func (h *hand) serves(job rota.JobID) rota.Lease {
	h.t.Helper()
	select {
	case l := <-h.taken:
		if l.Job != job {
			h.t.Fatalf("worker %s receives job %s, want %s", h.id, l.Job, job)
		}
		return l
	case <-time.After(30 * time.Second):
		h.t.Fatalf("worker %s does not receive job %s", h.id, job)
		return rota.Lease{}
	}
}

// says sends one verb on a lease and returns the answer.
func (h *hand) says(verb rota.LeaseVerb, l rota.Lease, change ...func(*peer.LeaseCommand)) peer.LeaseAnswer {
	h.t.Helper()
	c := peer.LeaseCommand{Verb: verb, Lease: l.ID, Job: l.Job}
	if verb == rota.VerbComplete {
		sum := hashOf()
		c.OutputDigest = sum[:]
	}
	for _, f := range change {
		f(&c)
	}
	for range 20 {
		h.mu.Lock()
		h.sequence++
		sequence, to := h.sequence, make(chan *rotav1.LeaseAnswers, 1)
		h.answers[sequence] = to
		h.mu.Unlock()
		check(h.t, h.put(&rotav1.WorkRequest{Message: &rotav1.WorkRequest_Commands{Commands: &rotav1.LeaseCommands{
			Sequence: sequence, Commands: []*rotav1.LeaseCommand{words.LeaseCommandToWire(&c)}}}}))
		select {
		case a := <-to:
			if a.GetRefusal() != nil {
				continue // without outcome: the same once more
			}
			answer, err := words.LeaseAnswerFromWire(a.GetAnswers()[0])
			check(h.t, err)
			return answer
		case <-time.After(30 * time.Second):
			h.t.Fatalf("worker %s has no answer to %s on job %s", h.id, verb, l.Job)
		}
	}
	h.t.Fatalf("worker %s: %s on job %s is never accepted", h.id, verb, l.Job)
	return peer.LeaseAnswer{}
}

// does calls says for a verb that must be accepted.
func (h *hand) does(verb rota.LeaseVerb, l rota.Lease, change ...func(*peer.LeaseCommand)) peer.LeaseAnswer {
	h.t.Helper()
	a := h.says(verb, l, change...)
	if a.Err != nil {
		h.t.Fatalf("worker %s: %s on job %s is refused: %v", h.id, verb, l.Job, a.Err)
	}
	return a
}

// refused calls says for a verb that must be refused.
func (h *hand) refused(kind rota.Kind, verb rota.LeaseVerb, l rota.Lease, change ...func(*peer.LeaseCommand)) {
	h.t.Helper()
	if a := h.says(verb, l, change...); a.Err == nil || a.Err.Kind != kind {
		h.t.Errorf("worker %s: %s on job %s is answered %+v, want %s", h.id, verb, l.Job, a, kind)
	}
}

// hears waits until the worker has received the message that its lease ended, or is revoked.
func (h *hand) hears(l rota.Lease, revoked bool, why rota.Reason) {
	h.t.Helper()
	eventually(h.t, 20*time.Second, fmt.Sprintf("worker %s hears %s", h.id, why), func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		from := h.ended
		if revoked {
			from = h.revoked
		}
		if got, told := from[l.ID]; !told || got != why {
			return fmt.Errorf("notified is %v: %s", told, got)
		}
		return nil
	})
}
