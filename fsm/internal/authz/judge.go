package authz

import (
	"reflect"
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
)

// Judge refuses an operation for which its actor lacks the right. It reads only rows, and uses the tenant and the queue
// of the object in the state, not those of the request.
func (ac *Authority) Judge(op *fsmpb.Op) *rota.Error { return ac.judgeBy(op, ac.rightsOfCaller) }

// judgeBy is judge with rights resolved by rightsOf.
func (ac *Authority) judgeBy(op *fsmpb.Op, rightsOf func(access.Caller) (*access.Rights, *rota.Error)) *rota.Error {
	caller := state.CallerOf(op)
	if caller == (access.Caller{}) {
		return nil
	}
	rights, refusal := rightsOf(caller)
	if refusal != nil {
		return refusal
	}
	r, ok := RuleOf(op)
	switch {
	case !ok:
		return rota.Refusef(rota.KindDenied, "operation", "an operation of the leader alone is no caller's: %s has no right to it", caller.Actor)
	case rights.All() && r.beyond == nil:
		return nil
	}
	j := judgement{ac: ac, actor: caller.Actor.Owner(), session: caller.Actor, rights: rights, right: r.right}
	return j.by(&r, op)
}

// rule is the required right of an operation.
type rule struct {
	right rota.Right
	// at checks the right at each place that the operation concerns; it is not called for callers with all rights.
	at func(*judgement, *fsmpb.Op)
	// beyond refuses what no right allows, for every caller.
	beyond func(*judgement, *fsmpb.Op) *rota.Error
}

// rules contains the operations open to callers, by type; all others are internal to the leader.
var rules = map[reflect.Type]rule{
	reflect.TypeFor[*fsmpb.Op_Submit](): {rota.RightSubmit, (*judgement).submit, nil},
	reflect.TypeFor[*fsmpb.Op_Cancel](): {rota.RightControl, func(j *judgement, op *fsmpb.Op) { j.job(op.GetCancel().GetJob(), nil) }, nil},
	reflect.TypeFor[*fsmpb.Op_Retry](): {rota.RightControl, func(j *judgement, op *fsmpb.Op) {
		j.job(op.GetRetry().GetJob(), op.GetRetry().GetSpec())
	}, nil},
	reflect.TypeFor[*fsmpb.Op_ChangeJob]():    {rota.RightControl, func(j *judgement, op *fsmpb.Op) { j.job(op.GetChangeJob().GetJob(), nil) }, nil},
	reflect.TypeFor[*fsmpb.Op_InterruptJob](): {rota.RightControl, func(j *judgement, op *fsmpb.Op) { j.job(op.GetInterruptJob().GetJob(), nil) }, nil},
	reflect.TypeFor[*fsmpb.Op_RunJobNow]():    {rota.RightControl, func(j *judgement, op *fsmpb.Op) { j.job(op.GetRunJobNow().GetJob(), nil) }, nil},
	reflect.TypeFor[*fsmpb.Op_DeleteJob]():    {rota.RightControl, (*judgement).deleteJob, nil},
	reflect.TypeFor[*fsmpb.Op_ReportProof](): {rota.RightVerdict, func(j *judgement, op *fsmpb.Op) {
		j.job(op.GetReportProof().GetJob(), op.GetReportProof().GetSpec())
	}, nil},
	reflect.TypeFor[*fsmpb.Op_OpenWorkflow]():   {rota.RightSubmit, (*judgement).openWorkflow, nil},
	reflect.TypeFor[*fsmpb.Op_AddNodes]():       {rota.RightSubmit, (*judgement).addNodes, nil},
	reflect.TypeFor[*fsmpb.Op_CommitWorkflow](): {rota.RightSubmit, func(j *judgement, op *fsmpb.Op) { j.workflow(op.GetCommitWorkflow().GetId()) }, nil},
	reflect.TypeFor[*fsmpb.Op_CancelWorkflow](): {rota.RightControl, func(j *judgement, op *fsmpb.Op) { j.workflow(op.GetCancelWorkflow().GetId()) }, nil},
	reflect.TypeFor[*fsmpb.Op_RetryWorkflow]():  {rota.RightControl, func(j *judgement, op *fsmpb.Op) { j.workflow(op.GetRetryWorkflow().GetId()) }, nil},
	reflect.TypeFor[*fsmpb.Op_SignalWorkflow](): {rota.RightControl, func(j *judgement, op *fsmpb.Op) {
		s := op.GetSignalWorkflow()
		j.node(rota.WorkflowID(s.GetWorkflow()), s.GetNode())
	}, nil},
	reflect.TypeFor[*fsmpb.Op_Register]():         {rota.RightWork, (*judgement).register, (*judgement).registersItself},
	reflect.TypeFor[*fsmpb.Op_SetStatus]():        {rota.RightWorkers, func(j *judgement, op *fsmpb.Op) { j.worker(op.GetSetStatus().GetWorker()) }, nil},
	reflect.TypeFor[*fsmpb.Op_Gone]():             ownWork(func(op *fsmpb.Op) string { return op.GetGone().GetWorker() }),
	reflect.TypeFor[*fsmpb.Op_Offer]():            ownWork(func(op *fsmpb.Op) string { return op.GetOffer().GetWorker() }),
	reflect.TypeFor[*fsmpb.Op_Lease]():            {rota.RightWork, (*judgement).lease, ownWork(func(op *fsmpb.Op) string { return op.GetLease().GetWorker() }).beyond},
	reflect.TypeFor[*fsmpb.Op_SetQueue]():         {rota.RightQueue, func(j *judgement, op *fsmpb.Op) { j.asked(access.Everything, op.GetSetQueue().GetName()) }, nil},
	reflect.TypeFor[*fsmpb.Op_SetTenant]():        {rota.RightTenant, func(j *judgement, op *fsmpb.Op) { j.asked(op.GetSetTenant().GetId(), access.Everything) }, nil},
	reflect.TypeFor[*fsmpb.Op_DeleteQueue]():      {rota.RightQueue, (*judgement).deleteQueue, nil},
	reflect.TypeFor[*fsmpb.Op_DeleteTenant]():     {rota.RightTenant, func(j *judgement, op *fsmpb.Op) { j.asked(op.GetDeleteTenant().GetId(), access.Everything) }, nil},
	reflect.TypeFor[*fsmpb.Op_DeleteWorker]():     {rota.RightWorkers, func(j *judgement, op *fsmpb.Op) { j.worker(op.GetDeleteWorker().GetId()) }, nil},
	reflect.TypeFor[*fsmpb.Op_SetMode]():          {rota.RightOperate, (*judgement).everywhere, nil},
	reflect.TypeFor[*fsmpb.Op_SetNode]():          {rota.RightOperate, (*judgement).everywhere, nil}, // a removal
	reflect.TypeFor[*fsmpb.Op_SetCluster]():       {rota.RightOperate, (*judgement).everywhere, nil},
	reflect.TypeFor[*fsmpb.Op_SetTzdata]():        {rota.RightOperate, (*judgement).everywhere, nil},
	reflect.TypeFor[*fsmpb.Op_ReadSnapshot]():     {rota.RightBackup, (*judgement).everywhere, nil},
	reflect.TypeFor[*fsmpb.Op_Barrier]():          {}, // it only reports the position of the log
	reflect.TypeFor[*fsmpb.Op_SetRole]():          ofRights,
	reflect.TypeFor[*fsmpb.Op_DeleteRole]():       ofRights,
	reflect.TypeFor[*fsmpb.Op_CreateToken]():      ofRights,
	reflect.TypeFor[*fsmpb.Op_RevokeToken]():      ofRights,
	reflect.TypeFor[*fsmpb.Op_SetBlock]():         ofRights,
	reflect.TypeFor[*fsmpb.Op_SetAnonymous]():     ofRights,
	reflect.TypeFor[*fsmpb.Op_InitAuth]():         ofRights,
	reflect.TypeFor[*fsmpb.Op_SetIssuer]():        ofRights,
	reflect.TypeFor[*fsmpb.Op_DeleteIssuer]():     ofRights,
	reflect.TypeFor[*fsmpb.Op_SetSchedule]():      {rota.RightSubmit, (*judgement).setSchedule, nil},
	reflect.TypeFor[*fsmpb.Op_PauseSchedule]():    {rota.RightControl, func(j *judgement, op *fsmpb.Op) { j.schedule(op.GetPauseSchedule().GetName()) }, nil},
	reflect.TypeFor[*fsmpb.Op_TriggerSchedule]():  {rota.RightSubmit, func(j *judgement, op *fsmpb.Op) { j.schedule(op.GetTriggerSchedule().GetName()) }, nil},
	reflect.TypeFor[*fsmpb.Op_BackfillSchedule](): {rota.RightSubmit, func(j *judgement, op *fsmpb.Op) { j.schedule(op.GetBackfillSchedule().GetName()) }, nil},
	reflect.TypeFor[*fsmpb.Op_DeleteSchedule]():   {rota.RightControl, func(j *judgement, op *fsmpb.Op) { j.schedule(op.GetDeleteSchedule().GetName()) }, nil},
	reflect.TypeFor[*fsmpb.Op_StartPlan]():        {rota.RightControl, (*judgement).somewhere, nil},
	reflect.TypeFor[*fsmpb.Op_CancelPlan]():       {rota.RightControl, func(j *judgement, op *fsmpb.Op) { j.plan(op.GetCancelPlan().GetId()) }, nil},
	reflect.TypeFor[*fsmpb.Op_OpenBatch]():        {rota.RightSubmit, (*judgement).openBatch, nil},
	reflect.TypeFor[*fsmpb.Op_SealBatch]():        {rota.RightSubmit, func(j *judgement, op *fsmpb.Op) { j.batch(op.GetSealBatch().GetId()) }, nil},
	reflect.TypeFor[*fsmpb.Op_SetWebhook]():       {rota.RightControl, (*judgement).setWebhook, nil},
	reflect.TypeFor[*fsmpb.Op_PauseWebhook]():     {rota.RightControl, func(j *judgement, op *fsmpb.Op) { j.webhook(op.GetPauseWebhook().GetName()) }, nil},
	reflect.TypeFor[*fsmpb.Op_SkipWebhook]():      {rota.RightControl, func(j *judgement, op *fsmpb.Op) { j.webhook(op.GetSkipWebhook().GetName()) }, nil},
	reflect.TypeFor[*fsmpb.Op_DeleteWebhook]():    {rota.RightControl, func(j *judgement, op *fsmpb.Op) { j.webhook(op.GetDeleteWebhook().GetName()) }, nil},
	reflect.TypeFor[*fsmpb.Op_Exchange]():         {}, // the issuer's mapping gives the rights of the result
	reflect.TypeFor[*fsmpb.Op_OpenSession]():      {rota.RightNone, nil, (*judgement).openSession},
	reflect.TypeFor[*fsmpb.Op_ClaimSession]():     {rota.RightNone, nil, (*judgement).claimSession},
	reflect.TypeFor[*fsmpb.Op_EndSession]():       {rota.RightNone, nil, (*judgement).endSession},
	reflect.TypeFor[*fsmpb.Op_SetKeyRule]():       {rota.RightQueue, (*judgement).setKeyRule, nil},
	reflect.TypeFor[*fsmpb.Op_DeleteKeyRule]():    {rota.RightQueue, (*judgement).deleteKeyRule, nil},
	reflect.TypeFor[*fsmpb.Op_SkipKey]():          {rota.RightQueue, (*judgement).skipKey, nil},
	reflect.TypeFor[*fsmpb.Op_PauseKey]():         {rota.RightQueue, (*judgement).pauseKey, nil},
	reflect.TypeFor[*fsmpb.Op_SetBudget]():        {rota.RightBudget, (*judgement).setBudget, nil},
	reflect.TypeFor[*fsmpb.Op_DeleteBudget]():     {rota.RightBudget, func(j *judgement, op *fsmpb.Op) { j.budget(op.GetDeleteBudget().GetName()) }, nil},
	reflect.TypeFor[*fsmpb.Op_GrantBudget]():      {rota.RightGrant, func(j *judgement, op *fsmpb.Op) { j.budget(op.GetGrantBudget().GetName()) }, nil},
	reflect.TypeFor[*fsmpb.Op_ResetBudget]():      {rota.RightBudget, func(j *judgement, op *fsmpb.Op) { j.budget(op.GetResetBudget().GetName()) }, nil},
}

// ofRights is the rule of operations that change rights.
var ofRights = rule{rota.RightAuth, (*judgement).everywhere, (*judgement).auth}

// ownStatus is the rule of a worker's change of its own status.
var ownStatus = ownWork(func(op *fsmpb.Op) string { return op.GetSetStatus().GetWorker() })

// ownWork is the rule of a worker's own operations. Registration required the right; the worker's leases end if the
// right is lost.
func ownWork(worker func(*fsmpb.Op) string) rule {
	return rule{rota.RightWork, (*judgement).somewhere, func(j *judgement, op *fsmpb.Op) *rota.Error { return j.ownWorker(worker(op)) }}
}

// RuleOf returns the rule of an operation; false if callers may not use it.
func RuleOf(op *fsmpb.Op) (rule, bool) {
	switch {
	case op.GetSetStatus().GetSession() != 0:
		return ownStatus, true
	case op.GetSetMode().GetAuto(), op.GetSetNode() != nil && !op.GetSetNode().GetRemoved():
		return rule{}, false
	}
	r, ok := rules[reflect.TypeOf(op.GetOp())]
	return r, ok
}

// judgement is the check of one operation of one actor.
type judgement struct {
	ac *Authority
	// actor is the caller, or the parent of the calling session; session is the caller itself.
	actor, session rota.Principal
	rights         *access.Rights
	// right is the required right.
	right rota.Right
	// refusal is the first refusal found.
	refusal *rota.Error
}

// by applies the rule of an operation. A missing object is left to the verb, which reports it.
func (j *judgement) by(r *rule, op *fsmpb.Op) *rota.Error {
	if r.at != nil && !j.rights.All() {
		if r.at(j, op); j.refusal != nil {
			return j.refusal
		}
	}
	if r.beyond != nil {
		return r.beyond(j, op)
	}
	return nil
}

// asked requires the right over a tenant and a queue that the operation names. It reports whether the judgement
// continues.
func (j *judgement) asked(tenant, queue string) bool {
	if j.refusal == nil && !j.rights.Allow(j.right, rota.TenantID(tenant), rota.QueueName(queue)) {
		j.refusal = rota.Refusef(rota.KindDenied, j.right.String(), "%s has no right to %s: ask for a role that grants it", j.actor,
			rota.Grant{Right: j.right, Tenant: tenant, Queue: queue})
	}
	return j.refusal == nil
}

// found requires the right over the tenant and the queue of an object in the state. The refusal does not name them: a
// caller without the right need not know.
func (j *judgement) found(what, id, tenant, queue string) bool {
	if j.refusal == nil && !j.rights.Allow(j.right, rota.TenantID(tenant), rota.QueueName(queue)) {
		j.refusal = rota.Refusef(rota.KindDenied, j.right.String(), "%s has no right to %s %s %.80q: ask for a role that grants it", j.actor,
			j.right, what, id)
	}
	return j.refusal == nil
}

// known is found for objects that the right to read shows: a caller that may not read the object does not learn that it
// exists.
func (j *judgement) known(what, id, tenant, queue string) bool {
	if j.refusal == nil && !j.rights.Allow(j.right, rota.TenantID(tenant), rota.QueueName(queue)) &&
		!j.rights.Allow(rota.RightRead, rota.TenantID(tenant), rota.QueueName(queue)) {
		j.refusal = rota.Refusef(rota.KindNotFound, what, "%s %q is not known", what, id)
	}
	return j.found(what, id, tenant, queue)
}

// free refuses an id that belongs to an object beyond the caller's right, and reveals only that.
func (j *judgement) free(field, id, tenant, queue string) bool {
	if j.refusal == nil && !j.rights.Allow(j.right, rota.TenantID(tenant), rota.QueueName(queue)) {
		j.refusal = rota.Refusef(rota.KindConflict, field, "%s %s is taken: choose another one", field, id)
	}
	return j.refusal == nil
}

// Everywhere requires the right over all tenants and queues.
func (j *judgement) everywhere(*fsmpb.Op) { j.asked(access.Everything, access.Everything) }

// somewhere requires the right over anything.
func (j *judgement) somewhere(*fsmpb.Op) {
	if !j.rights.Some(j.right) {
		j.everywhere(nil)
	}
}

// plan allows only the caller that started a plan to end it, and callers that may control everything.
func (j *judgement) plan(id string) {
	by, known := j.ac.places.PlanStarter(rota.PlanID(id))
	switch {
	case !known || by == j.actor:
		j.somewhere(nil)
	case !j.rights.Allow(j.right, access.Everything, access.Everything):
		j.refusal = rota.Refusef(rota.KindNotFound, "plan", "plan %q is not known", id)
	}
}

// Moves judges whether an actor may move a job to another queue: it needs control of the job where it is, and submit
// where it goes.
func (ac *Authority) Moves(caller access.Caller, job rota.JobID, tenant rota.TenantID, to rota.QueueName) *rota.Error {
	if caller == (access.Caller{}) {
		return nil
	}
	rights, refusal := ac.RightsOf(caller.Actor)
	if refusal != nil || rights.All() {
		return refusal
	}
	j := judgement{ac: ac, actor: caller.Actor, rights: rights, right: rota.RightControl}
	if j.job(string(job), nil); j.refusal == nil {
		j.right = rota.RightSubmit
		j.asked(string(tenant), string(to))
	}
	return j.refusal
}

// register requires work for some tenant of every named queue: a worker gets no jobs of other tenants. For an id whose
// secret the caller does not know, it requires the rights for all tenants that the existing worker may work for.
func (j *judgement) register(op *fsmpb.Op) {
	spec := op.GetRegister().GetSpec()
	for _, queue := range spec.GetQueues() {
		if len(j.rights.Tenants(j.right, rota.QueueName(queue))) == 0 && !j.asked(access.Everything, queue) {
			return
		}
	}
	w := j.ac.places.Workers.Get(rota.WorkerID(spec.GetId()))
	if w == nil || w.Knows(op.GetRegister().GetSecretHash()) || op.GetRegister().GetTakeover() && j.takes(w, op.GetRegister().GetOldSecretHash()) {
		return
	}
	for _, queue := range w.Spec.Queues {
		tenants := w.Grants.Tenants(queue)
		if len(tenants) == 0 {
			tenants = []string{access.Everything}
		}
		for _, tenant := range tenants {
			if !j.free("worker", spec.GetId(), tenant, string(queue)) {
				return
			}
		}
	}
}

// takes reports whether a worker's id may be taken over: the secret matches, or the actor may stop the worker.
func (j *judgement) takes(w *state.WorkerRow, secret []byte) bool {
	return w.Knows(secret) || !slices.ContainsFunc(w.Spec.Queues, func(q rota.QueueName) bool {
		return !j.rights.Allow(rota.RightWorkers, access.Everything, q)
	})
}

// registers checks a worker's id against the token's prefix. It refuses to take an id from a live worker without that
// worker's secret or the right to stop it.
func (j *judgement) registers(op *fsmpb.Op) *rota.Error {
	id := op.GetRegister().GetSpec().GetId()
	if t, ok := j.actor.Token(); ok {
		if t := j.ac.Tokens.Get(state.TokenID(t)); t != nil && !strings.HasPrefix(id, t.WorkerPrefix) {
			return rota.Refusef(rota.KindDenied, "worker", "%s registers workers whose ids begin with %s only, not %.80q", j.actor, t.WorkerPrefix, id)
		}
	}
	w := j.ac.places.Workers.Get(rota.WorkerID(id))
	if w == nil || !w.Live() || !op.GetRegister().GetTakeover() || w.Knows(op.GetRegister().GetSecretHash()) {
		return nil
	}
	if !j.takes(w, op.GetRegister().GetOldSecretHash()) {
		return rota.Refusef(rota.KindDenied, "takeover", "worker id %s is another process's: to take it over, show that one's secret "+
			"(--takeover-secret-file), or have the right to workers", id)
	}
	return nil
}

// worker requires the right for each of a worker's queues.
func (j *judgement) worker(id string) {
	if w := j.ac.places.Workers.Get(rota.WorkerID(id)); w != nil {
		for _, queue := range w.Spec.Queues {
			if !j.found("worker", id, access.Everything, string(queue)) {
				return
			}
		}
	}
}

// ownWorker refuses a worker's own operations to every principal except the one that registered it.
func (j *judgement) ownWorker(id string) *rota.Error {
	if w := j.ac.places.Workers.Get(rota.WorkerID(id)); w != nil && w.By != j.actor {
		return rota.Refusef(rota.KindDenied, "worker", "worker %s was registered by somebody else than %s: register it again, with its secret", id,
			j.actor)
	}
	return nil
}

// lease judges by the tenant and the queue of an open lease. Children of a completion may go to queues where their
// workflow has nodes, and to others with the right to submit.
func (j *judgement) lease(op *fsmpb.Op) {
	l := j.ac.places.Leases.Get(string(op.GetLease().GetLease()))
	if l == nil || !j.found("job", string(l.Job), string(l.Tenant), string(l.Queue)) {
		return
	}
	for _, queue := range j.ac.places.NewQueues(l, op.GetLease()) {
		if j.right = rota.RightSubmit; !j.asked(string(l.Tenant), queue) {
			return
		}
	}
}

// Denied returns the refusals that the actors' rights would cause if the operations were applied now, each at its
// index; nil means no refusal. Concurrent calls are safe: nothing is cached.
func (ac *Authority) Denied(ops []*fsmpb.Op) (outcomes []*fsmpb.Outcome) {
	rightsOf := ac.remembered()
	for i, op := range ops {
		if refusal := ac.judgeBy(op, rightsOf); refusal != nil {
			if outcomes == nil {
				outcomes = make([]*fsmpb.Outcome, len(ops))
			}
			outcomes[i] = entry.Refused(refusal)
		}
	}
	return outcomes
}

// Taken refuses a submission whose id belongs to a job that only archives contain, in a tenant and a queue that the
// actor may not submit to; nil means no objection.
func (ac *Authority) Taken(op *fsmpb.Op, tenant rota.TenantID, queue rota.QueueName) *fsmpb.Outcome {
	if op.GetActor() == "" {
		return nil
	}
	rights, refusal := ac.remembered()(state.CallerOf(op))
	if refusal == nil {
		j := judgement{rights: rights, right: rota.RightSubmit}
		j.free("id", op.GetSubmit().GetSpec().GetId(), string(tenant), string(queue))
		refusal = j.refusal
	}
	if refusal == nil {
		return nil
	}
	return entry.Refused(refusal)
}

// Forwardable reports whether nodes may forward an operation, for its caller or for a log that they keep for one. All
// others are internal to the leader, such as a removal, which the leader only makes after checking the remaining
// members.
func Forwardable(op *fsmpb.Op) bool {
	switch op.GetOp().(type) {
	case *fsmpb.Op_KeepLog:
		return true
	case *fsmpb.Op_SetNode:
		return false
	}
	_, ok := RuleOf(op)
	return ok
}
