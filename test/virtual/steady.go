package virtual

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
)

// The steady worker has no faults: no crash, no cut, no drain. Its leases are longer than every fault, so none of them
// may end, whatever happens to the nodes (SPEC §3.11).
const (
	steadyQueue  rota.QueueName = "steady"
	steadyWorker host           = "steady"
)

var steadySettings = []rota.Setting{{Key: "lease_ms", Value: "90s"}, {Key: "ack_timeout_ms", Value: "60s"},
	{Key: "attempt_max", Value: "8"}, {Key: "backoff_base_ms", Value: "500ms"}, {Key: "backoff_cap_ms", Value: "4s"},
	{Key: "min_health", Value: "0"}}

// steadyEvent checks an event about one of its leases. If the worker itself stopped believing, because no answer came
// for 30 s, that is not an end of the lease: it declines it.
func (l *life) steadyEvent(e *rota.Event) {
	if e.Kind == rota.EventLeaseExpired && hostOfWorker(e.Worker) == steadyWorker {
		l.violate("no lease of a live, connected worker ends by faults that its nodes survive",
			"lease %s of job %s, held by %s, ended for %s", e.Lease, e.Job, e.Worker, e.Reason)
	}
}

// hostOfWorker returns the host at the start of a worker's id.
func hostOfWorker(id rota.WorkerID) host {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i] == '-' {
			return host(id[:i])
		}
	}
	return host(id)
}

// drawSteady draws a job of its queue.
func drawSteady(random *rand.Rand, id rota.JobID) rota.JobSpec {
	t := task{takes: time.Duration(2_000+random.IntN(20_000)) * time.Millisecond}
	s := rota.NewJobSpec(rota.JobType(fmt.Sprintf("s%d", random.IntN(2))), t.payload())
	s.ID, s.Queue = id, steadyQueue
	return s
}
