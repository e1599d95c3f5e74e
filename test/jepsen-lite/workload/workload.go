package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

// workload is one kind of user. It runs until ctx ends; drain ends with the run, some time later, for work that must
// still be finished.
type workload struct {
	name string
	// run returns once ctx has ended, or drain.
	run func(ctx, drain context.Context, w *trial, r *rand.Rand)
	// times is the number of such users.
	times int
	// role is the role of their tokens where the cluster is locked.
	role string
}

// workloads are all users except the workers, which are separate (clients.go).
var workloads = []workload{
	{"producer", produce, producers, "submitter"},
	{"reader", read, 3, fault.RoleReads},
	{"waiter", wait, 1, fault.RoleReads},
	{"canceller", cancelSome, 1, "submitter"},
	{"hostile", beHostile, 1, "worker"},
	{"operator", operate, 1, "operator"},
	{"workflows", submitWorkflows, 2, "submitter"},
	{"keys", submitKeyed, 2, "submitter"},
	{"payer", pay, 1, "root"},
	{"batches", openBatches, 1, "submitter"},
	{"uniques", submitUnique, 2, "submitter"},
	{"plans", startPlans, 1, "submitter"},
	{"gates", signalGates, 1, "submitter"},
}

// rotated are the users whose tokens are replaced and revoked; so are workers' tokens.
var rotated = []string{"producer", "reader"}

// producers share the rate.
const producers = 6

// trial is one run from its beginning to its end.
type trial struct {
	*fault.World
	Clients *clients
	book    *book
	// badge is the credential of a user, in the user's own copy; nil where the cluster is open, and for the run itself,
	// which has all rights.
	badge *fault.Badge
}

// done records how a call of a user ended.
func (w *trial) done(op check.Op, err error) check.Op { return w.badge.Done(w.Rec, op, err) }

// queueSpec is a queue of the run.
type queueSpec struct {
	name   rota.QueueName
	preset string
	lease  int64
	// attempts is attempt_max; share is its part of the jobs, in permille.
	attempts int64
	share    int
	plan     func(r *rand.Rand) jobPlan
}

// jobPlan is a job's payload: the instructions for its handler.
type jobPlan struct {
	// Ms is how long it works, in milliseconds.
	Ms int `json:"ms"`
	// Fail and the others are chances in permille.
	Fail    int `json:"fail,omitempty"`
	NoRetry int `json:"no_retry,omitempty"`
	Decline int `json:"decline,omitempty"`
	Snooze  int `json:"snooze,omitempty"`
	Cancel  int `json:"cancel,omitempty"`
	Later   int `json:"later,omitempty"`
	// Clean is how many milliseconds it continues after its job was cancelled, at most maxClean.
	Clean int `json:"clean,omitempty"`
	// Spend is what it reports to have used, in tenths of a unit; 0 reports nothing.
	Spend int `json:"spend,omitempty"`
	// Log is the number of lines that it logs, Mark the id of the payload's owner (submitUnique), Grow the nodes that a
	// workflow's node adds as it completes.
	Log  int          `json:"log,omitempty"`
	Mark string       `json:"mark,omitempty"`
	Grow *rota.Growth `json:"grow,omitempty"`
}

// maxClean bounds how long a handler cleans up, in milliseconds. A worker gives up a lease one second before the
// cluster does, so a handler that still has its lease finishes in time.
const maxClean = 400

// payload encodes the plan as a job's payload.
func (p jobPlan) payload() []byte {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // numbers, texts and nodes can always be encoded
	}
	return text
}

func working(least, most int) func(*rand.Rand) jobPlan {
	return func(r *rand.Rand) jobPlan { return jobPlan{Ms: least + r.IntN(most-least+1)} }
}

// queues have short leases, so that a run sees many of them end.
var queues = []queueSpec{
	{"quick", "standard", 5_000, 1_000, 675, brief},
	{"long", "standard", 6_000, 1_000, 10, working(3_000, 9_000)},
	{"steady", "standard", 20_000, 1_000, 6, working(5_000, 18_000)},
	{"flaky", "standard", 5_000, 4, 60, func(r *rand.Rand) jobPlan {
		return jobPlan{Ms: r.IntN(100), Fail: 300, NoRetry: 50, Decline: 60, Snooze: 100, Cancel: 20, Later: 80,
			Log: logs(r)}
	}},
	{"prey", "standard", 5_000, 1_000, 30, func(r *rand.Rand) jobPlan { return jobPlan{} }},
	{"market", "aicf-ai", 5_000, 1_000, 100, brief},
	{"adaptive", "dfps", 5_000, 1_000, 100, brief},
	{"flux", "fluxforge", 4_000, 1_000, 19, working(50, 1_000)},
	{rota.WebhookQueue, "standard", 5_000, 1_000, 0, nil}, // the cluster makes its jobs
}

// logs draws how many lines a handler logs: none, a few, or more than are kept.
func logs(r *rand.Rand) int {
	switch n := r.IntN(100); {
	case n < 60:
		return 0
	case n < 98:
		return 1 + r.IntN(30)
	default:
		return 1_200
	}
}

func brief(r *rand.Rand) jobPlan { return jobPlan{Ms: max(0, r.IntN(60)-40)} }

func queueFacts() map[string]check.QueueFacts {
	facts := make(map[string]check.QueueFacts)
	for _, q := range queues {
		facts[string(q.name)] = check.QueueFacts{LeaseMs: q.lease, AttemptMax: q.attempts}
	}
	return facts
}

// settings returns the settings of a queue: no long backoffs, no worker shut out for bad health; a weight proportional
// to its part of the jobs, so that after an outage the few long jobs do not occupy all slots.
func (q *queueSpec) settings() []rota.Setting {
	return []rota.Setting{
		{Key: "lease_ms", Value: fmt.Sprint(q.lease)}, {Key: "ack_timeout_ms", Value: "4000"},
		{Key: "attempt_max", Value: fmt.Sprint(q.attempts)}, {Key: "backoff_base_ms", Value: "200"},
		{Key: "backoff_factor_permille", Value: "1000"}, {Key: "backoff_unit_ms", Value: "1"},
		{Key: "min_health", Value: "0"}, {Key: "weight", Value: fmt.Sprint(max(1, q.share/5))},
	}
}

// tenantSpec is a tenant of the run with its settings.
type tenantSpec struct {
	name rota.TenantID
	set  []rota.Setting
}

// tenants share the jobs evenly. Jobs that t-rated's rate limit refuses were not accepted; t-capped's lanes wait again
// and again.
var tenants = []tenantSpec{
	{"t-free", nil},
	{"t-heavy", []rota.Setting{{Key: "weight", Value: "4"}, {Key: "tier", Value: "PREMIUM"}}},
	{"t-capped", []rota.Setting{{Key: "max_concurrent", Value: "32"}, {Key: "penalty_ms", Value: "50"}}},
	{"t-rated", []rota.Setting{{Key: "rate_limit_rps", Value: "40"}}},
}

// newJob draws a job. There are many types, so that a worker that is shut out from one for a while has others.
func newJob(id string, r *rand.Rand) rota.JobSpec {
	at, q := r.IntN(1000), queues[0]
	for _, q = range queues {
		if at -= q.share; at < 0 {
			break
		}
	}
	spec := rota.NewJobSpec(rota.JobType(fmt.Sprintf("%s-%d", q.name, r.IntN(16))), q.plan(r).payload())
	spec.ID, spec.Queue, spec.Priority = rota.JobID(id), q.name, int32(r.IntN(11))
	spec.Tenant = tenants[r.IntN(len(tenants))].name
	if spec.Queue == "flaky" && r.IntN(3) == 0 {
		spec.Retry = rota.RetryPolicy{Attempts: 1 + r.Int64N(3), Base: 100 * time.Millisecond}
	}
	spec.Fee, spec.SizeBytes = r.Int64N(4_000_000), r.Int64N(4<<20)
	return spec
}

// book remembers submitted ids, for the users that read and cancel.
type book struct {
	mu   sync.Mutex
	all  ring
	slow ring
}

// ring keeps the newest ids.
type ring struct {
	ids  []string
	next int
}

const (
	bookKeeps = 2_000
	slowKeeps = 100
)

// put stores an id; ids of slow jobs, which can still be running when they are drawn, twice.
func (b *book) put(id string, queue rota.QueueName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all.put(id, bookKeeps)
	if queue != "quick" {
		b.slow.put(id, slowKeeps)
	}
}

func (r *ring) put(id string, most int) {
	if len(r.ids) < most {
		r.ids = append(r.ids, id)
		return
	}
	r.ids[r.next] = id
	r.next = (r.next + 1) % most
}

// draw returns n ids, newer ones more likely; fewer if there are fewer.
func (b *book) draw(r *rand.Rand, n int) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.draw(r, n)
}

// drawSlow returns ids of jobs that may still be running.
func (b *book) drawSlow(r *rand.Rand, n int) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.slow.draw(r, n)
}

func (r *ring) draw(rnd *rand.Rand, n int) []string {
	var ids []string
	for range n {
		if len(r.ids) == 0 {
			break
		}
		back := min(rnd.IntN(len(r.ids)), rnd.IntN(len(r.ids)))
		ids = append(ids, r.ids[((r.next-1-back)%len(r.ids)+len(r.ids))%len(r.ids)])
	}
	return ids
}
