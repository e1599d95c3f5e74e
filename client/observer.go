package client

import (
	"time"

	"github.com/rotasched/rota"
)

// Observer holds functions that a worker calls as events happen. Functions may be nil; they are called concurrently and
// must return at once.
type Observer struct {
	// Started is called before a handler begins.
	Started func(HandlerEvent)
	// Finished is called after a handler returned. Err is what it returned.
	Finished func(HandlerEvent)
	// Lost is called when the worker gives up a lease that was waiting or running. Err is a *LostError. Its handler may
	// still be running: Finished follows.
	Lost func(HandlerEvent)
	// Refused is called when the cluster refused for good to acknowledge or renew a lease that the worker may still
	// hold (Err). Without renewals the lease continues to its deadline; without an acknowledgement it continues until
	// it is Lost, unless its completion comes first.
	Refused func(HandlerEvent)
	// Reported is called when the cluster accepted the outcome, or refused it for good (Err). Verb is the outcome's: a
	// lease that was lost after its handler had returned without error is declined.
	Reported func(HandlerEvent)
	// GivenUp is called when a stopping worker could not report an outcome before the lease was over by its view. Verb
	// is the outcome's. The job may run again.
	GivenUp func(HandlerEvent)
	// Connected and Disconnected are called for the stream to a node.
	Connected    func(ConnectionEvent)
	Disconnected func(ConnectionEvent)
	// TurnedAway is called when a node could not be reached, or does not accept the worker for now (Err), for example
	// because its credential may not register more workers. The worker keeps trying. Each kind of failure of each node
	// is reported at once, and then every 30 s until the worker is connected again.
	TurnedAway func(ConnectionEvent)
}

// HandlerEvent is an event of one lease.
type HandlerEvent struct {
	Worker  rota.WorkerID
	Job     rota.JobID
	Lease   rota.LeaseID
	Token   rota.Token
	Attempt int32
	// At is this process's own time, with its monotonic part.
	At time.Time
	// Verb is complete, fail or decline if an outcome is Reported or GivenUp, else zero.
	Verb rota.LeaseVerb
	Err  error
}

// ConnectionEvent is an event of one stream.
type ConnectionEvent struct {
	Worker  rota.WorkerID
	Address string
	Node    rota.NodeID
	Session rota.Session
	At      time.Time
	Err     error
}

func (o *Observer) call(f func(HandlerEvent), w rota.WorkerID, a *rota.Assignment, verb rota.LeaseVerb, err error) {
	if f == nil {
		return
	}
	f(HandlerEvent{
		Worker: w, Job: a.Lease.Job, Lease: a.Lease.ID, Token: a.Lease.Token, Attempt: a.Lease.Attempt,
		At: time.Now(), Verb: verb, Err: err,
	})
}
