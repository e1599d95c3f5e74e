package client

import (
	"context"
	"iter"
	"math"
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// DrainWorker lets a worker keep its leases and get no new one (SPEC §8.5).
func (c *Client) DrainWorker(ctx context.Context, id rota.WorkerID) (rota.Worker, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.Worker, error) {
		return n.workers.Drain(ctx, &rotav1.DrainWorkerRequest{Id: string(id)})
	}
	return one(ctx, c, "drain worker", words.WorkerFromWire, ask)
}

// SuspendWorker cancels a worker's leases, whose jobs are queued again, and gives the worker none until it is resumed
// (SPEC §8.5).
func (c *Client) SuspendWorker(ctx context.Context, id rota.WorkerID) (rota.Worker, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.Worker, error) {
		return n.workers.Suspend(ctx, &rotav1.SuspendWorkerRequest{Id: string(id)})
	}
	return one(ctx, c, "suspend worker", words.WorkerFromWire, ask)
}

// ResumeWorker makes a DRAINING, SUSPENDED or JAILED worker ACTIVE again.
func (c *Client) ResumeWorker(ctx context.Context, id rota.WorkerID) (rota.Worker, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.Worker, error) {
		return n.workers.Resume(ctx, &rotav1.ResumeWorkerRequest{Id: string(id)})
	}
	return one(ctx, c, "resume worker", words.WorkerFromWire, ask)
}

// RetireWorker retires a worker for good; its leases are cancelled.
func (c *Client) RetireWorker(ctx context.Context, id rota.WorkerID) (rota.Worker, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.Worker, error) {
		return n.workers.Retire(ctx, &rotav1.RetireWorkerRequest{Id: string(id)})
	}
	return one(ctx, c, "retire worker", words.WorkerFromWire, ask)
}

// WorkerGone reports, from a supervisor outside the worker, that a worker's process has died and none of its processes
// runs any more. Its leases end at once as WORKER_LOST, and it is RETIRED (SPEC §16.7). The secret is that of
// WithSecret, the session that of ConnectionEvent. Call it only after every process that the worker started has ended:
// the jobs become free for other workers, after their backoff. It is idempotent; a session that is over is refused as
// Stale.
func (c *Client) WorkerGone(ctx context.Context, id rota.WorkerID, session rota.Session, secret []byte) error {
	return c.call(ctx, "worker gone", maxAnswer, func(ctx context.Context, n *node) error {
		_, err := n.workers.Gone(ctx, &rotav1.WorkerGoneRequest{Id: string(id), Session: uint64(session),
			Secret: secret})
		return err
	})
}

// ReportProof reports, for a verifier, that the proof of a COMPLETED job is invalid, within the queue's audit_window.
// The job's worker is slashed, and the job runs again if it asked for that (SPEC §9.5).
func (c *Client) ReportProof(ctx context.Context, report rota.ProofReport) (rota.JobOutcome, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.JobOutcome, error) {
		return n.jobs.ReportProof(ctx, words.ProofReportToWire(&report))
	}
	return one(ctx, c, "report proof", words.JobOutcomeFromWire, ask)
}

// Tenants lists the tenants that have settings or open leases, by id.
func (c *Client) Tenants(ctx context.Context, opts ...ReadOption) iter.Seq2[rota.Tenant, error] {
	return list(ctx, c, "list tenants", 0, "", opts,
		func(ctx context.Context, n *node, p page) (got pageOf[rota.Tenant], err error) {
			request := &rotav1.ListTenantsRequest{Read: words.ReadToWire(p.read), Limit: int32(p.limit),
				Cursor: p.cursor}
			answer, err := n.tenants.List(ctx, request)
			if err != nil {
				return got, err
			}
			got.items, err = words.TenantsFromWire(answer.GetTenants())
			got.next, got.at = answer.GetNextCursor(), answer.GetAt()
			return got, err
		})
}

// Tenant reads any tenant; one without settings has the default limits.
func (c *Client) Tenant(ctx context.Context, id rota.TenantID, opts ...ReadOption) (rota.Tenant, error) {
	ask := func(ctx context.Context, n *node, how *rotav1.Read) (*rotav1.GetTenantResponse, error) {
		return n.tenants.Get(ctx, &rotav1.GetTenantRequest{Id: string(id), Read: how})
	}
	from := func(w *rotav1.GetTenantResponse) (rota.Tenant, error) { return words.TenantFromWire(w.GetTenant()) }
	return read(ctx, c, "show tenant", opts, from, ask)
}

// SetOption is an option of calls that set something: [DryRun] or a [Condition].
type SetOption interface{ apply(*settingHow) }

type settingHow struct {
	dryRun  bool
	ifMatch string
}

func setting(opts []SetOption) (how settingHow) {
	for _, o := range opts {
		o.apply(&how)
	}
	return how
}

type dryRun struct{}

func (dryRun) apply(how *settingHow) { how.dryRun = true }

// DryRun stores nothing: the call returns the result it would have, with its Changes, or the error it would get. Calls
// that set queues, tenants and the cluster's settings accept it.
func DryRun() SetOption { return dryRun{} }

// Condition must hold for a call to change anything: see [IfMatch].
type Condition struct{ etag string }

func (c Condition) apply(how *settingHow) { how.ifMatch = c.etag }

// IfMatch makes a call change, or delete, only the version with this ETag of a [rota.Queue], [rota.Tenant],
// [rota.KeyRule], [rota.Schedule], [rota.Webhook], [rota.Role], [rota.Issuer] or [rota.ClusterSettings]. If the object
// has been changed since it was read, the call is refused with [rota.ErrConflict], subject "version", and the current
// version in the text. The state machine compares the versions, so of two callers who read the same version one
// succeeds, whichever nodes they call. "*" matches any version that exists, and "" sets no condition. If the object
// already is as the call sets it, there is no conflict, so a repeated call succeeds.
func IfMatch(etag string) Condition { return Condition{etag} }

// etagOf returns the etag of the last condition.
func etagOf(conditions []Condition) (etag string) {
	for _, c := range conditions {
		etag = c.etag
	}
	return etag
}

// SetTenant creates or changes a tenant, key by key (rota.TenantKeys).
func (c *Client) SetTenant(ctx context.Context, id rota.TenantID, set []rota.Setting,
	opts ...SetOption) (rota.Tenant, error) {
	how := setting(opts)
	ask := func(ctx context.Context, n *node) (*rotav1.Tenant, error) {
		return n.tenants.Set(ctx, &rotav1.SetTenantRequest{Id: string(id), Set: words.SettingsToWire(set),
			DryRun: how.dryRun, IfMatch: how.ifMatch})
	}
	return one(ctx, c, "set tenant", words.TenantFromWire, ask)
}

// Mode reads what the cluster admits, and why (SPEC §4.3).
func (c *Client) Mode(ctx context.Context, opts ...ReadOption) (rota.ModeStatus, error) {
	ask := func(ctx context.Context, n *node, how *rotav1.Read) (*rotav1.GetModeResponse, error) {
		return n.cluster.GetMode(ctx, &rotav1.GetModeRequest{Read: how})
	}
	from := func(w *rotav1.GetModeResponse) (rota.ModeStatus, error) { return words.ModeFromWire(w.GetMode()) }
	return read(ctx, c, "get mode", opts, from, ask)
}

// SetCluster changes the cluster's own settings, key by key (rota.ClusterKeys).
func (c *Client) SetCluster(ctx context.Context, set []rota.Setting, opts ...SetOption) (rota.ClusterSettings, error) {
	how := setting(opts)
	ask := func(ctx context.Context, n *node) (*rotav1.ClusterSettings, error) {
		return n.cluster.Set(ctx, &rotav1.SetClusterRequest{Set: words.SettingsToWire(set), DryRun: how.dryRun,
			IfMatch: how.ifMatch})
	}
	return one(ctx, c, "set cluster", words.ClusterSettingsFromWire, ask)
}

// SetMode changes what the cluster admits, with a reason of 1 to 256 bytes.
func (c *Client) SetMode(ctx context.Context, mode rota.ClusterMode, reason string) (rota.ModeStatus, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.Mode, error) {
		return n.cluster.SetMode(ctx, &rotav1.SetModeRequest{Mode: mode.String(), Reason: reason})
	}
	return one(ctx, c, "set mode", words.ModeFromWire, ask)
}

// DeleteQueue deletes a queue that is not named by any live job, workflow, schedule, batch or rule of keys; a missing
// queue is not an error. Jobs that ended in it cannot be retried until the queue is set again (SPEC §21.4).
func (c *Client) DeleteQueue(ctx context.Context, name rota.QueueName, only ...Condition) error {
	return c.call(ctx, "delete queue", maxAnswer, func(ctx context.Context, n *node) error {
		_, err := n.queues.Delete(ctx, &rotav1.DeleteQueueRequest{Name: string(name), IfMatch: etagOf(only)})
		return err
	})
}

// DrainQueue deletes a queue after moving its pending jobs to another queue (SPEC §21.5). From its first call on, the
// queue accepts no submission; open leases continue, and DrainQueue waits for them until ctx ends. Another call
// continues where the last one stopped; SetQueue keeps the queue after all. After each step DrainQueue calls left,
// unless it is nil, with the number of live jobs left.
func (c *Client) DrainQueue(ctx context.Context, name, to rota.QueueName, left func(uint64)) error {
	for before := uint64(math.MaxUint64); ; {
		var now uint64
		err := c.call(ctx, "drain queue", maxAnswer, func(ctx context.Context, n *node) error {
			answer, err := n.queues.Delete(ctx, &rotav1.DeleteQueueRequest{Name: string(name), DrainTo: string(to)})
			now = answer.GetLeft()
			return err
		})
		if err != nil {
			return err
		}
		if left != nil {
			left(now)
		}
		if now == 0 {
			return nil
		}
		if now >= before && !pause(ctx, drainPause) { // nothing moved: the rest are running
			return c.gaveUp(ctx, "drain queue", rota.Refusef(rota.KindConflict, "queue",
				"queue %q has %d live jobs that do not move: leased jobs, "+
					"nodes of workflows, or more requirement sets than %q accepts", name, now, to))
		}
		before = now
	}
}

// drainPause is how long DrainQueue waits for leases to end before it checks again.
const drainPause = 500 * time.Millisecond

// DeleteTenant deletes the settings of a tenant that is not named by any live job, workflow or token.
func (c *Client) DeleteTenant(ctx context.Context, id rota.TenantID, only ...Condition) error {
	return c.call(ctx, "delete tenant", maxAnswer, func(ctx context.Context, n *node) error {
		_, err := n.tenants.Delete(ctx, &rotav1.DeleteTenantRequest{Id: string(id), IfMatch: etagOf(only)})
		return err
	})
}

// DeleteWorker deletes a worker that has no leases and is RETIRED or UNREACHABLE.
func (c *Client) DeleteWorker(ctx context.Context, id rota.WorkerID) error {
	return c.call(ctx, "delete worker", maxAnswer, func(ctx context.Context, n *node) error {
		_, err := n.workers.Delete(ctx, &rotav1.DeleteWorkerRequest{Id: string(id)})
		return err
	})
}
