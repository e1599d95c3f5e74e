package authz

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/internal/access"
)

// submit judges by the target of the job, and by an existing job with its id.
func (j *judgement) submit(op *fsmpb.Op) {
	spec := op.GetSubmit().GetSpec()
	if !j.asked(placeOf(spec.GetTenant(), spec.GetQueue())) {
		return
	}
	if tenant, queue, ok := j.ac.PlaceOfJob(spec.GetId()); ok {
		j.free("id", spec.GetId(), tenant, queue)
	}
}

// setSchedule judges by the target of the runs, and by that of the schedule that it replaces.
func (j *judgement) setSchedule(op *fsmpb.Op) {
	s := op.GetSetSchedule()
	if !j.asked(placeOf(s.GetJob().GetTenant(), s.GetJob().GetQueue())) {
		return
	}
	if r := j.ac.places.Schedules.Get(rota.ScheduleName(s.GetName())); r != nil {
		j.free("schedule", s.GetName(), string(r.Kept.Tenant), string(r.Kept.Queue))
	}
}

// schedule judges by the target of a schedule's runs.
func (j *judgement) schedule(name string) {
	if r := j.ac.places.Schedules.Get(rota.ScheduleName(name)); r != nil {
		j.known("schedule", name, string(r.Kept.Tenant), string(r.Kept.Queue))
	}
}

// openBatch judges by the target of the callback, and by an existing batch with the id.
func (j *judgement) openBatch(op *fsmpb.Op) {
	b := op.GetOpenBatch()
	if !j.asked(placeOf(b.GetCallback().GetTenant(), b.GetCallback().GetQueue())) {
		return
	}
	if r := j.ac.places.Batches.Get(rota.BatchID(b.GetId())); r != nil {
		j.free("id", b.GetId(), string(r.Tenant), string(r.Queue))
	}
}

// placeOf returns the tenant and the queue that a submission goes to.
func placeOf(tenant, queue string) (string, string) {
	if tenant == "" {
		tenant = string(rota.DefaultTenant)
	}
	if queue == "" {
		queue = string(rota.DefaultQueue)
	}
	return tenant, queue
}

// PlaceOfJob returns the tenant and the queue of a job that the state contains: alive, ended, or a workflow node that
// has no job yet.
func (ac *Authority) PlaceOfJob(id string) (tenant, queue string, ok bool) {
	if r := ac.s.JobTable.Get(rota.JobID(id)); r != nil {
		return string(r.Spec.Tenant), string(r.Spec.Queue), true
	}
	if t := ac.places.Tombs.Get(rota.JobID(id)); t != nil {
		return string(t.Tenant), string(t.Queue), true
	}
	if w, name, node := rota.SplitNodeJobID(rota.JobID(id)); node {
		if v, _ := ac.places.Node(w, name); v != nil {
			return string(v.Spec.Tenant), string(v.Spec.Queue), true
		}
	}
	return "", "", false
}

// job judges by the job that an operation names, as it is in the state; for a job that only archives contain, by the
// spec that the proposer read there.
func (j *judgement) job(id string, archived *fsmpb.JobSpec) {
	tenant, queue, ok := j.ac.PlaceOfJob(id)
	if !ok && archived != nil {
		tenant, queue = placeOf(archived.GetTenant(), archived.GetQueue())
		ok = true
	}
	if ok {
		j.known("job", id, tenant, queue)
	}
}

// Node judges by a workflow node, or by the workflow if it has no such node.
func (j *judgement) node(id rota.WorkflowID, name string) {
	switch v, known := j.ac.places.Node(id, name); {
	case v != nil:
		j.job(string(rota.NodeJobID(id, name)), nil)
	case known:
		j.workflow(string(id))
	}
}

// deleteJob requires the right over all tenants for a job that only archives contain, as the operation does not name
// its tenant.
func (j *judgement) deleteJob(op *fsmpb.Op) {
	id := op.GetDeleteJob().GetJob()
	if _, _, ok := j.ac.PlaceOfJob(id); !ok {
		j.known("job", id, access.Everything, access.Everything)
		return
	}
	j.job(id, nil)
}

// deleteQueue judges by the queue, and by the queue that its jobs move to.
func (j *judgement) deleteQueue(op *fsmpb.Op) {
	if d := op.GetDeleteQueue(); j.asked(access.Everything, d.GetName()) && d.GetDrainTo() != "" {
		j.asked(access.Everything, d.GetDrainTo())
	}
}

// setKeyRule judges by the queue of a rule. If the rule counts the keys of all tenants together, before or after, it
// requires the right over all tenants.
func (j *judgement) setKeyRule(op *fsmpb.Op) {
	set := op.GetSetKeyRule()
	j.keyRule(set.GetQueue(), set.GetName(), set.GetValue(), set.GetCluster())
}

func (j *judgement) deleteKeyRule(op *fsmpb.Op) {
	d := op.GetDeleteKeyRule()
	j.keyRule(d.GetQueue(), d.GetName(), d.GetValue(), false)
}

func (j *judgement) skipKey(op *fsmpb.Op) {
	j.key(op.GetSkipKey().GetTenant(), op.GetSkipKey().GetQueue())
}

func (j *judgement) pauseKey(op *fsmpb.Op) {
	j.key(op.GetPauseKey().GetTenant(), op.GetPauseKey().GetQueue())
}

// setBudget judges by the tenant and the queue of a budget, before and after.
func (j *judgement) setBudget(op *fsmpb.Op) {
	b := op.GetSetBudget()
	j.asked(OrEverything(b.GetTenant()), OrEverything(b.GetQueue()))
	if r := j.ac.places.Budgets.Get(rota.BudgetName(b.GetName())); r != nil {
		j.free("budget", b.GetName(), OrEverything(string(r.Spec.Tenant)), OrEverything(string(r.Spec.Queue)))
	}
}

// budget judges by the tenant and the queue of a budget; without one, by all of them.
func (j *judgement) budget(name string) {
	if r := j.ac.places.Budgets.Get(rota.BudgetName(name)); r != nil {
		j.known("budget", name, OrEverything(string(r.Spec.Tenant)), OrEverything(string(r.Spec.Queue)))
	}
}

// key judges by where a key is counted; without a tenant, or a queue, by all of them.
func (j *judgement) key(tenant, queue string) { j.asked(OrEverything(tenant), OrEverything(queue)) }

func (j *judgement) keyRule(queue, name, value string, cluster bool) {
	if !j.asked(access.Everything, OrEverything(queue)) {
		return
	}
	old := j.ac.places.KeyRule(rota.QueueName(queue), name, value)
	if cluster || old != nil && old.Scope == rota.KeyOfCluster {
		j.right = rota.RightTenant
		j.asked(access.Everything, access.Everything)
	}
}

// OrEverything returns the queue, or all queues if none is named.
func OrEverything(queue string) string {
	if queue == "" {
		return access.Everything
	}
	return queue
}

// openWorkflow judges by the workflow's tenant in its queue and in those of its nodes, and by an existing workflow with
// its id.
func (j *judgement) openWorkflow(op *fsmpb.Op) {
	open := op.GetOpenWorkflow()
	tenant, queue := placeOf(open.GetTenant(), open.GetQueue())
	if !j.asked(tenant, queue) {
		return
	}
	if r := j.ac.places.Workflows.Get(rota.WorkflowID(open.GetId())); r != nil {
		j.free("workflow", open.GetId(), string(r.Tenant), string(r.Queue))
	}
	for _, s := range open.GetShares() {
		if !j.asked(tenant, s.GetQueue()) {
			return
		}
	}
}

func (j *judgement) addNodes(op *fsmpb.Op) {
	add := op.GetAddNodes()
	r := j.ac.places.Workflows.Get(rota.WorkflowID(add.GetWorkflow()))
	if r == nil || !j.known("workflow", add.GetWorkflow(), string(r.Tenant), string(r.Queue)) {
		return
	}
	for _, node := range add.GetNodes() {
		if queue := node.GetSpec().GetQueue(); queue != "" && queue != string(r.Queue) && !j.asked(string(r.Tenant),
			queue) {
			return
		}
	}
}

// workflow judges by the workflow's tenant in its queue and in those of its nodes.
func (j *judgement) workflow(id string) {
	r := j.ac.places.Workflows.Get(rota.WorkflowID(id))
	if r == nil || !j.known("workflow", id, string(r.Tenant), string(r.Queue)) {
		return
	}
	for _, queue := range j.ac.places.QueuesOf(r.ID) {
		if !j.found("workflow", id, string(r.Tenant), string(queue)) {
			return
		}
	}
}

// batch judges by the queue of a batch's callback.
func (j *judgement) batch(id string) {
	if r := j.ac.places.Batches.Get(rota.BatchID(id)); r != nil {
		if !j.known("batch", id, string(r.Tenant), string(r.Queue)) && j.refusal.Kind == rota.KindNotFound {
			j.refusal = refuse.UnknownBatch(rota.BatchID(id))
		}
	}
}

// webhook requires the right to read everything that a hook sees, except of the principal that set it.
func (j *judgement) webhook(name string) {
	r := j.ac.places.Hooks.Get(rota.WebhookName(name))
	if r != nil && r.By != j.actor && !j.rights.CoverAll(r.Sees) {
		j.refusal = refuse.UnknownHook(rota.WebhookName(name))
		return
	}
	j.somewhere(nil)
}

// setWebhook requires the right to read everything that a hook of the name sees.
func (j *judgement) setWebhook(op *fsmpb.Op) {
	j.somewhere(op)
	if r := j.ac.places.Hooks.Get(rota.WebhookName(op.GetSetWebhook().GetName())); j.refusal == nil && r != nil &&
		!j.rights.CoverAll(r.Sees) {
		j.refusal = rota.Refusef(rota.KindConflict, "name", "webhook %s exists already: choose another name",
			r.Spec.Name)
	}
}
