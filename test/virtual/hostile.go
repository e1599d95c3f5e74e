package virtual

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster"
	"github.com/rotasched/rota/internal/peer"
)

// hostile impersonates others: a stranger uses leases that another worker holds, and a worker's old session uses those
// of its new one. The client library never would, so it uses the nodes' own sessions.
type hostile struct {
	life   *life
	random *rand.Rand
	minted int
}

func newHostile(l *life) *hostile {
	return &hostile{life: l, random: rand.New(rand.NewPCG(l.seed, 200))}
}

const (
	hostileRests = 40 * time.Second
	// hostilePatience limits each of its attempts: a zombie ends before its silence is counted.
	hostilePatience = 5 * time.Second
	// forged is an output that no handler returns.
	forged = "forged"
)

func (h *hostile) run() {
	for h.life.pause(time.Duration(h.random.Int64N(int64(hostileRests)))) {
		if h.life.calm.Load() {
			continue
		}
		if h.random.IntN(2) == 0 {
			h.stranger()
		} else {
			h.zombie()
		}
	}
}

// anyNode draws a node, nil while the server drawn has none.
func (h *hostile) anyNode() *cluster.Node {
	return h.life.servers[h.random.IntN(len(h.life.servers))].node()
}

func (h *hostile) open(ctx context.Context, id rota.WorkerID, queue rota.QueueName,
	secret string) *cluster.WorkerSession {
	n := h.anyNode()
	if n == nil {
		return nil
	}
	spec := rota.WorkerSpec{ID: id, Queues: []rota.QueueName{queue}, Slots: 1}
	s, err := n.OpenWorker(ctx, spec, []byte(secret+" secret of a hostile worker"), true, nil, peer.WorkerLink{})
	if err != nil {
		return nil
	}
	return s
}

// stranger registers, and tries to end jobs of others.
func (h *hostile) stranger() {
	ctx, cancel := context.WithTimeout(h.life.ctx, hostilePatience)
	defer cancel()
	h.minted++
	s := h.open(ctx, rota.WorkerID(fmt.Sprintf("stranger-%d", h.minted)), "nothing", "its")
	n := h.anyNode()
	if s == nil || n == nil {
		return
	}
	defer s.Close()
	page, _, err := n.Jobs(ctx, rota.JobFilter{State: rota.JobRunning, Limit: 8}, peer.ReadOptions{Stale: true})
	if err == nil {
		for _, j := range page.Jobs {
			if j.Lease != nil {
				h.claim(ctx, s, "a stranger", j.Lease)
			}
		}
	}
	_ = s.Bye(ctx)
}

// zombie is one worker twice: its new session replaces the old one, and the old one sends verbs for a lease of the new.
func (h *hostile) zombie() {
	ctx, cancel := context.WithTimeout(h.life.ctx, hostilePatience)
	defer cancel()
	h.minted++
	id := rota.WorkerID(fmt.Sprintf("zombie-%d", h.minted))
	old := h.open(ctx, id, queueName, "old")
	if old == nil {
		return
	}
	defer old.Close()
	present := h.open(ctx, id, queueName, "new")
	if present == nil {
		_ = old.Bye(ctx)
		return
	}
	defer present.Close()
	for {
		if err := present.Await(ctx); err != nil {
			break
		}
		for _, n := range present.Take() {
			if n.Assigned != nil {
				lease := n.Assigned.Lease
				h.claim(ctx, old, "an old session", &lease)
				_, _ = present.Do(ctx, []peer.LeaseCommand{{Verb: rota.VerbDecline, Lease: lease.ID, Job: lease.Job}})
			}
		}
	}
	bye, end := context.WithTimeout(h.life.ctx, hostilePatience)
	defer end()
	_ = present.Bye(bye)
}

// claim sends each verb for a lease that is not the session's own.
func (h *hostile) claim(ctx context.Context, s *cluster.WorkerSession, who string, lease *rota.Lease) {
	command := func(verb rota.LeaseVerb) peer.LeaseCommand {
		return peer.LeaseCommand{Verb: verb, Lease: lease.ID, Job: lease.Job, Ordinal: lease.Renewals + 1,
			Output: []byte(forged), Text: forged}
	}
	verbs := []rota.LeaseVerb{rota.VerbAck, rota.VerbRenew, rota.VerbFail, rota.VerbDecline, rota.VerbComplete}
	h.random.Shuffle(len(verbs), func(i, j int) { verbs[i], verbs[j] = verbs[j], verbs[i] })
	for _, verb := range verbs {
		answers, err := s.Do(ctx, []peer.LeaseCommand{command(verb)})
		if err != nil || len(answers) != 1 {
			continue // no answer: its effect shows at the end
		}
		h.life.note(func(f *figures) { f.claims++ })
		if answers[0].Err == nil {
			h.life.violate("only a lease's worker is heard, in its live session",
				"%s sent %s for lease %s of job %s, which was accepted", who, verb, lease.ID, lease.Job)
		}
	}
}
