package client

import (
	"time"

	"github.com/rotasched/rota"
)

// Observer is called about what a worker does, as it does it. Functions may be nil;
// they are called by several goroutines and must return at once.
type Observer struct {
	// Started: a handler begins. Called before the handler is.
	Started func(HandlerEvent)
	// Finished: a handler has returned. Err is what it returned.
	Finished func(HandlerEvent)
	// Lost: the worker no longer relies on a lease that was waiting or running. Err is
	// a *LostError. Its handler may still be running: Finished follows.
	Lost func(HandlerEvent)
	// Refused: the cluster refused to acknowledge or to renew a lease that may still be
	// the worker's, for good (Err). The lease goes on to its end: one that is renewed no
	// more to its deadline, one that is not acknowledged until it is Lost, unless its
	// completion comes first.
	Refused func(HandlerEvent)
	// Reported: the cluster took the outcome, or refused it for good (Err). Verb is what it
	// was: a lease that was lost after its handler had returned well is declined.
	Reported func(HandlerEvent)
	// GivenUp: a worker that stops could not report an outcome before the lease
	// was over by its view. Verb is what it was. The job may run again.
	GivenUp func(HandlerEvent)
	// Connected and Disconnected are about the stream to a node.
	Connected    func(ConnectionEvent)
	Disconnected func(ConnectionEvent)
	// TurnedAway: a node could not be reached or does not take the worker for now (Err), such
	// as one beyond what its credential may register. The worker keeps asking; each kind of
	// failure of each node is reported at once, and every 30 s until it is connected again.
	TurnedAway func(ConnectionEvent)
}

// HandlerEvent is about one lease.
type HandlerEvent struct {
	Worker  rota.WorkerID
	Job     rota.JobID
	Lease   rota.LeaseID
	Token   rota.Token
	Attempt int32
	// At is this process's own time, with its monotonic part.
	At time.Time
	// Verb is complete, fail or decline where an outcome is Reported or GivenUp, else zero.
	Verb rota.LeaseVerb
	Err  error
}

// ConnectionEvent is about one stream.
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
