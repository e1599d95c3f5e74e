package web

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// Polling is the set of calls for workers that have no stream (SPEC §13.17).
type Polling interface {
	Acquire(ctx context.Context, secret string, ask *rest.Acquire) (rest.Acquired, error)
	Beat(ctx context.Context, id rota.WorkerID, secret string, beat *rest.WorkerBeat) (rest.WorkerBeaten, error)
	Complete(ctx context.Context, of LeaseOf, body *rest.LeaseCompletion) (rest.JobOutcome, error)
	Fail(ctx context.Context, of LeaseOf, body *rest.LeaseFailure) (rest.JobOutcome, error)
	Decline(ctx context.Context, of LeaseOf, body *rest.LeaseDecline) (rest.JobOutcome, error)
	Progress(ctx context.Context, of LeaseOf, body *rest.LeaseProgress) (rest.JobOutcome, error)
	Unregister(ctx context.Context, id rota.WorkerID, secret string) error
}

// LeaseOf names a lease, its worker and the worker's secret.
type LeaseOf struct {
	Worker rota.WorkerID
	Secret string
	Lease  string
}

// Proof is a worker's secret.
type Proof struct {
	Secret string `header:"Rota-Worker-Secret" maxLength:"512" doc:"The worker's secret, 16 to 64 bytes that the worker chooses. Only its SHA-256 is stored."`
}

// PollCall is a call of a worker with a body.
type PollCall[T any] struct {
	Named
	Proof
	Given In[T]
}

// LeaseCall is a call on a lease.
type LeaseCall[T any] struct {
	ID    string `path:"id" maxLength:"512"`
	Lease string `path:"lease" maxLength:"512"`
	Proof
	Given In[T]
}

func (c *LeaseCall[T]) of() LeaseOf {
	return LeaseOf{Worker: rota.WorkerID(c.ID), Secret: c.Secret, Lease: c.Lease}
}

// Leaving is the call of a worker that leaves.
type Leaving struct {
	Named
	Proof
}

// waitUsual is how long acquire waits by default, in milliseconds.
const waitUsual = 5_000

func (s *Site) polling() {
	const one, lease = "/v1/workers/{id}", "/v1/workers/{id}/leases/{lease}"
	calls := s.options.Calls.Polling
	work := func(verb, id, says string, waits bool) route {
		return route{method: http.MethodPost, path: one + verb, call: rotav1.Workers_Work_FullMethodName, id: id,
			says: says, waits: waits}
	}
	add(s, work("/acquire", "acquireLeases", "Register a worker that has no stream, wait for leases, and return them",
		true), s.acquire)
	add(s, work("/beat", "beatWorker", "Send a worker's heartbeat, and renew the leases that it holds", false),
		func(ctx context.Context, in *PollCall[rest.WorkerBeat]) (*Answer[rest.WorkerBeaten], error) {
			body, err := in.Given.read()
			if err != nil {
				return nil, err
			}
			got, err := calls.Beat(ctx, rota.WorkerID(in.ID), in.Secret, &body)
			return answer(got, nil), err
		})
	add(s, work("/unregister", "unregisterWorker", "Unregister a worker: its leases are given to other workers", false),
		func(ctx context.Context, in *Leaving) (*Answer[rest.WorkerLeft], error) {
			err := calls.Unregister(ctx, rota.WorkerID(in.ID), in.Secret)
			return answer(rest.WorkerLeft{Worker: rota.WorkerID(in.ID)}, nil), err
		})
	onLease := func(verb, says string) route {
		return route{method: http.MethodPost, path: lease + "/" + verb, call: rotav1.Workers_Work_FullMethodName,
			id: verb + "Lease", says: says}
	}
	add(s, onLease("complete", "Complete a job, with its output"), s.completeLease)
	add(s, onLease("fail", "Fail an attempt, and set what happens to the job"), onALease(s, Polling.Fail))
	add(s, onLease("decline", "Return a lease; the attempt does not count"), onALease(s, Polling.Decline))
	add(s, onLease("progress", "Report the progress of a job"), onALease(s, Polling.Progress))
}

func (s *Site) acquire(ctx context.Context, in *PollCall[rest.Acquire]) (*Answer[rest.Acquired], error) {
	body := rest.Acquire{Max: 1, WaitMs: waitUsual, Worker: rota.WorkerSpec{Slots: 1}}
	if err := decode(in.Given.raw, &body, ""); err != nil {
		return nil, err
	}
	if id := body.Worker.ID; id != "" && string(id) != in.ID {
		return nil, rota.Refusef(rota.KindInvalid, "worker.id", "worker.id is %.80q, but the path has %.80q: omit it",
			id, in.ID)
	}
	body.Worker.ID = rota.WorkerID(in.ID)
	got, err := s.options.Calls.Polling.Acquire(ctx, in.Secret, &body)
	return answer(got, nil), err
}

// onALease handles a call on a lease whose body is read unchanged.
func onALease[T any](s *Site, do func(Polling, context.Context, LeaseOf, *T) (rest.JobOutcome,
	error)) func(context.Context, *LeaseCall[T]) (*Answer[rest.JobOutcome], error) {
	return func(ctx context.Context, in *LeaseCall[T]) (*Answer[rest.JobOutcome], error) {
		body, err := in.Given.read()
		if err != nil {
			return nil, err
		}
		got, err := do(s.options.Calls.Polling, ctx, in.of(), &body)
		return answer(got, nil), err
	}
}

// completeLease decodes children one by one: omitted fields have their defaults.
func (s *Site) completeLease(ctx context.Context,
	in *LeaseCall[rest.LeaseCompletion]) (*Answer[rest.JobOutcome], error) {
	var given struct {
		rest.LeaseCompletion
		Children []json.RawMessage `json:"children"`
	}
	if err := decode(in.Given.raw, &given, ""); err != nil {
		return nil, err
	}
	if n := len(given.Children); n > rota.MaxChildren {
		return nil, rota.TooMany("children", n, rota.MaxChildren)
	}
	body := given.LeaseCompletion
	for i, raw := range given.Children {
		node := rota.NewNodeSpec("", "", nil)
		if err := decode(raw, &node, "children["+strconv.Itoa(i)+"]"); err != nil {
			return nil, err
		}
		body.Children = append(body.Children, node)
	}
	got, err := s.options.Calls.Polling.Complete(ctx, in.of(), &body)
	return answer(got, nil), err
}
