package fsm

import (
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// judge refuses an operation that its actor has no right to. It reads rows only, and judges
// by the tenant and the queue of the object in the state, not of the request.
func (ac *authority) judge(op *fsmpb.Op) *rota.Error {
	caller := access.Caller{Actor: rota.Principal(op.GetActor()), Via: op.GetVia(), Request: op.GetRequest()}
	if caller == (access.Caller{}) {
		return nil // the leader of the entry acts by itself
	}
	if err := caller.Check(); err != nil {
		return rota.ErrorOf(err)
	}
	rights, refusal := ac.rightsOf(caller.Actor)
	if refusal != nil {
		return refusal
	}
	j := judgement{ac: ac, actor: caller.Actor, rights: rights}
	return j.of(op)
}

// Judge is what applying an operation now would say of its actor's right to it; nil is no
// objection.
func (vw *View) Judge(op *fsmpb.Op) *fsmpb.Outcome {
	if refusal := vw.m.access.judge(op); refusal != nil {
		return entry.Refused(refusal)
	}
	return nil
}

// judgement is of one operation of one actor.
type judgement struct {
	ac     *authority
	actor  rota.Principal
	rights *access.Rights
}

// need refuses an actor without a right over a tenant and a queue.
func (j *judgement) need(right access.Right, tenant, queue string) *rota.Error {
	if j.rights.Allow(right, rota.TenantID(tenant), rota.QueueName(queue)) {
		return nil
	}
	return rota.Refusef(rota.KindDenied, right.String(), "%s has no right to %s: ask for a role that grants it", j.actor,
		access.Grant{Right: right, Tenant: tenant, Queue: queue})
}

// of judges an operation. One of an object that is not there is left to its verb, which says
// so; one that only a leader proposes is no caller's.
func (j *judgement) of(op *fsmpb.Op) *rota.Error {
	const all = access.Everything
	switch op := op.GetOp().(type) {
	case *fsmpb.Op_Submit:
		return j.submit(op.Submit.GetSpec())
	case *fsmpb.Op_Cancel:
		return j.job(access.RightControl, op.Cancel.GetJob(), nil)
	case *fsmpb.Op_Retry:
		return j.job(access.RightControl, op.Retry.GetJob(), op.Retry.GetSpec())
	case *fsmpb.Op_ChangeJob:
		return j.job(access.RightControl, op.ChangeJob.GetJob(), nil)
	case *fsmpb.Op_DeleteJob:
		return j.deleteJob(op.DeleteJob)
	case *fsmpb.Op_ReportProof:
		return j.job(access.RightVerdict, op.ReportProof.GetJob(), op.ReportProof.GetSpec())
	case *fsmpb.Op_OpenWorkflow:
		return j.openWorkflow(op.OpenWorkflow)
	case *fsmpb.Op_AddNodes:
		return j.addNodes(op.AddNodes)
	case *fsmpb.Op_CommitWorkflow:
		return j.workflow(access.RightSubmit, op.CommitWorkflow.GetId())
	case *fsmpb.Op_CancelWorkflow:
		return j.workflow(access.RightControl, op.CancelWorkflow.GetId())
	case *fsmpb.Op_RetryWorkflow:
		return j.workflow(access.RightControl, op.RetryWorkflow.GetId())
	case *fsmpb.Op_Register:
		return j.register(op.Register.GetSpec())
	case *fsmpb.Op_SetStatus:
		right := access.RightWorkers
		if op.SetStatus.GetSession() != 0 {
			right = access.RightWork
		}
		return j.worker(right, op.SetStatus.GetWorker())
	case *fsmpb.Op_Gone:
		return j.worker(access.RightWork, op.Gone.GetWorker())
	case *fsmpb.Op_Lease:
		return j.lease(op.Lease)
	case *fsmpb.Op_SetQueue:
		return j.need(access.RightQueue, all, op.SetQueue.GetName())
	case *fsmpb.Op_SetTenant:
		return j.need(access.RightTenant, op.SetTenant.GetId(), all)
	case *fsmpb.Op_SetMode, *fsmpb.Op_SetCluster:
		return j.need(access.RightOperate, all, all)
	case *fsmpb.Op_Barrier:
		return nil // it says nothing but where the log is
	case *fsmpb.Op_SetRole, *fsmpb.Op_DeleteRole, *fsmpb.Op_CreateToken, *fsmpb.Op_RevokeToken, *fsmpb.Op_SetBlock,
		*fsmpb.Op_SetAnonymous, *fsmpb.Op_InitAuth:
		return j.auth(op)
	default:
		return rota.Refusef(rota.KindDenied, "operation", "an operation of the leader alone is no caller's: %s has no right to it", j.actor)
	}
}

func (j *judgement) submit(spec *fsmpb.JobSpec) *rota.Error {
	tenant, queue := placeOf(spec)
	if refusal := j.need(access.RightSubmit, tenant, queue); refusal != nil {
		return refusal
	}
	if j.rights.All() {
		return nil
	}
	if t, q, ok := j.ac.placeOfJob(spec.GetId()); ok && !j.rights.Allow(access.RightSubmit, rota.TenantID(t), rota.QueueName(q)) {
		return taken("id", spec.GetId())
	}
	return nil
}

// taken says of an id of somebody else no more than that.
func taken(field, id string) *rota.Error {
	return rota.Refusef(rota.KindConflict, field, "%s %s is taken: choose another one", field, id)
}

// placeOf returns the tenant and the queue that a job is submitted to.
func placeOf(spec *fsmpb.JobSpec) (tenant, queue string) {
	tenant, queue = spec.GetTenant(), spec.GetQueue()
	if tenant == "" {
		tenant = string(rota.DefaultTenant)
	}
	if queue == "" {
		queue = string(rota.DefaultQueue)
	}
	return tenant, queue
}

// placeOfJob returns the tenant and the queue of a job that the state knows, alive, ended, or
// a node of a workflow that has no job yet.
func (ac *authority) placeOfJob(id string) (tenant, queue string, ok bool) {
	if r := ac.m.jobs.get(rota.JobID(id)); r != nil {
		return string(r.spec.Tenant), string(r.spec.Queue), true
	}
	if t := ac.m.ended.tombs.get(rota.JobID(id)); t != nil {
		return string(t.tenant), string(t.queue), true
	}
	if w, _, node := rota.SplitNodeJobID(rota.JobID(id)); node {
		if r := ac.m.flows.workflows.get(rota.WorkflowID(w)); r != nil {
			return string(r.tenant), string(r.queue), true
		}
	}
	return "", "", false
}

// job judges by the job in the state, or, of one that only archives know, by the spec that
// whoever proposes took from there.
func (j *judgement) job(right access.Right, id string, archived *fsmpb.JobSpec) *rota.Error {
	if j.rights.All() {
		return nil
	}
	tenant, queue, ok := j.ac.placeOfJob(id)
	switch {
	case ok:
	case archived != nil:
		tenant, queue = placeOf(archived)
	default:
		return nil
	}
	return j.need(right, tenant, queue)
}

// deleteJob judges one that only archives know as one of all tenants: the operation does not
// say of which it is.
func (j *judgement) deleteJob(op *fsmpb.DeleteJob) *rota.Error {
	if _, _, ok := j.ac.placeOfJob(op.GetJob()); !ok {
		return j.need(access.RightControl, access.Everything, access.Everything)
	}
	return j.job(access.RightControl, op.GetJob(), nil)
}

// openWorkflow judges by the workflow's tenant with its queue and each of its nodes'.
func (j *judgement) openWorkflow(op *fsmpb.OpenWorkflow) *rota.Error {
	tenant, queue := placeOf(&fsmpb.JobSpec{Tenant: op.GetTenant(), Queue: op.GetQueue()})
	if refusal := j.need(access.RightSubmit, tenant, queue); refusal != nil {
		return refusal
	}
	if r := j.ac.m.flows.workflows.get(rota.WorkflowID(op.GetId())); r != nil && !j.rights.Allow(access.RightSubmit, r.tenant, r.queue) {
		return taken("workflow", op.GetId())
	}
	for _, s := range op.GetShares() {
		if refusal := j.need(access.RightSubmit, tenant, s.GetQueue()); refusal != nil {
			return refusal
		}
	}
	return nil
}

func (j *judgement) addNodes(op *fsmpb.AddNodes) *rota.Error {
	r := j.ac.m.flows.workflows.get(rota.WorkflowID(op.GetWorkflow()))
	if r == nil || j.rights.All() {
		return nil
	}
	if refusal := j.need(access.RightSubmit, string(r.tenant), string(r.queue)); refusal != nil {
		return refusal
	}
	for _, node := range op.GetNodes() {
		if queue := node.GetSpec().GetQueue(); queue != "" && queue != string(r.queue) {
			if refusal := j.need(access.RightSubmit, string(r.tenant), queue); refusal != nil {
				return refusal
			}
		}
	}
	return nil
}

func (j *judgement) workflow(right access.Right, id string) *rota.Error {
	if r := j.ac.m.flows.workflows.get(rota.WorkflowID(id)); r != nil {
		return j.need(right, string(r.tenant), string(r.queue))
	}
	return nil
}

// register needs work for every queue named, over all tenants: a worker is given jobs of
// any. The token's prefix begins the worker's id.
func (j *judgement) register(spec *fsmpb.WorkerSpec) *rota.Error {
	if id, ok := j.actor.Token(); ok {
		if t := j.ac.tokens.get(tokenID(id)); t != nil && !strings.HasPrefix(spec.GetId(), t.WorkerPrefix) {
			return rota.Refusef(rota.KindDenied, "worker", "%s registers workers whose ids begin with %s only, not %q", j.actor, t.WorkerPrefix,
				spec.GetId())
		}
	}
	for _, queue := range spec.GetQueues() {
		if refusal := j.need(access.RightWork, access.Everything, queue); refusal != nil {
			return refusal
		}
	}
	if w := j.ac.m.fleet.workers.get(rota.WorkerID(spec.GetId())); w != nil && !j.rights.All() {
		for _, queue := range w.spec.Queues {
			if !j.rights.Allow(access.RightWork, access.Everything, queue) {
				return taken("worker", spec.GetId())
			}
		}
	}
	return nil
}

// worker needs a right for each of a worker's queues.
func (j *judgement) worker(right access.Right, id string) *rota.Error {
	w := j.ac.m.fleet.workers.get(rota.WorkerID(id))
	if w == nil || j.rights.All() {
		return nil
	}
	for _, queue := range w.spec.Queues {
		if refusal := j.need(right, access.Everything, string(queue)); refusal != nil {
			return refusal
		}
	}
	return nil
}

func (j *judgement) lease(op *fsmpb.LeaseOp) *rota.Error {
	if j.rights.All() {
		return nil
	}
	if l := j.ac.m.leasing.leases.get(string(op.GetLease())); l != nil {
		return j.need(access.RightWork, string(l.tenant), string(l.queue))
	}
	return j.worker(access.RightWork, op.GetWorker())
}

// auth judges a change of rights: nobody but the account that the node runs as gives, takes or
// changes what is beyond its own. The first token is that account's alone.
func (j *judgement) auth(op any) *rota.Error {
	if refusal := j.need(access.RightAuth, access.Everything, access.Everything); refusal != nil || j.actor == rota.Local {
		return refusal
	}
	here := j.ac.here()
	switch op := op.(type) {
	case *fsmpb.Op_SetRole:
		if refusal := j.within("role", op.SetRole.GetName(), rights(grantWords(op.SetRole.GetGrants()))); refusal != nil {
			return refusal
		}
		return j.within("role", op.SetRole.GetName(), here.granted([]string{op.SetRole.GetName()}, nil, nil))
	case *fsmpb.Op_DeleteRole:
		return j.within("role", op.DeleteRole.GetName(), here.granted([]string{op.DeleteRole.GetName()}, nil, nil))
	case *fsmpb.Op_CreateToken:
		t, _, err := tokenWords(op.CreateToken)
		if err != nil {
			return rota.ErrorOf(err)
		}
		return j.within("token", t.ID, here.granted(t.Roles, t.Tenants, t.Queues))
	case *fsmpb.Op_RevokeToken:
		if t := j.ac.tokens.get(tokenID(op.RevokeToken.GetId())); t != nil {
			return j.within("token", t.ID, here.granted(t.Roles, t.Tenants, t.Queues))
		}
		return nil
	case *fsmpb.Op_SetBlock:
		return j.within("block", op.SetBlock.GetRole()+"/"+op.SetBlock.GetName(), here.granted([]string{op.SetBlock.GetRole()}, nil, nil))
	case *fsmpb.Op_SetAnonymous:
		roles := slices.Concat(atMost(op.SetAnonymous.GetRoles(), limits.MaxTokenRoles), here.anonymous)
		return j.within("role", "of anonymous", here.granted(roles, nil, nil))
	default:
		return rota.Refusef(rota.KindDenied, "auth", "only the account that a node runs as makes the first token, or another one that stands for all: "+
			"run `rota auth` with --data on the node")
	}
}

func rights(grants []access.Grant) *access.Rights {
	r := access.NewRights(grants, nil, nil)
	return &r
}

// within refuses what would be beyond the actor's own rights.
func (j *judgement) within(what, name string, r *access.Rights) *rota.Error {
	if r.Within(j.rights) {
		return nil
	}
	return rota.Refusef(rota.KindDenied, what, "%s %s has rights that %s has not itself: nobody gives, takes or changes more than their own", what, name, j.actor)
}
