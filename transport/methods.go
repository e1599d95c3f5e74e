package transport

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
)

// need describes which rights a method requires of its caller.
type need struct {
	// right is the right that the caller must hold; none where the next two fields state otherwise.
	right rota.Right
	// also is an alternative right; none if there is no alternative.
	also rota.Right
	// scoped marks a call that checks each object where it is changed or read, by its tenant and queue: the entry check
	// requires only that the right is granted over anything. Without it, the right must be granted over everything.
	scoped bool
	// anybody marks calls that need no credential. members marks calls of other nodes, which present a node's
	// certificate and no client credential.
	anybody, members bool
	// known allows any caller with a valid credential, whatever its rights are.
	known bool
	// judged marks a call that is checked when it is applied, and whose answer states the outcome: a caller that has
	// given away its own right by it still receives the answer.
	judged bool
	// alone marks a call that a node serves without a leader confirming its state.
	alone bool
}

// right requires a right over everything.
func right(r rota.Right) need { return need{right: r} }

// scoped requires a right over the objects of the call.
func scoped(r rota.Right) need { return need{right: r, scoped: true} }

// either requires one of two rights over the objects of the call.
func either(r, also rota.Right) need { return need{right: r, also: also, scoped: true} }

// judged requires a right over everything to change something.
func judged(r rota.Right) need { return need{right: r, judged: true} }

// admits reports whether a caller with these rights is admitted.
func (n need) admits(rights *access.Rights) bool {
	return n.known || n.scoped && (rights.Some(n.right) || n.also != rota.RightNone && rights.Some(n.also)) ||
		rights.AllowEverywhere(n.right)
}

// where returns the scope in which the right is required.
func (n need) where() string {
	switch {
	case n.scoped || !n.right.ByTenant() && !n.right.ByQueue():
		return ""
	case !n.right.ByTenant():
		return " in all queues"
	}
	return " of all tenants in all queues"
}

// Needs returns the right that a call, such as /rota.v1.Jobs/Submit, requires; RightNone if any credential, or none, is
// enough. ok is false for anything but a client's call.
func Needs(method string) (r rota.Right, ok bool) {
	n, ok := methods[method]
	return n.right, ok && !n.members
}

var (
	anybody = need{anybody: true}
	members = need{members: true}
	known   = need{known: true}
)

// methods is the only table of calls and the rights that they need. A call that is not in it is not allowed:
// TestMethods finds missing and stale ones.
var methods = map[string]need{
	"/rota.v1.Jobs/Submit":      scoped(rota.RightSubmit),
	"/rota.v1.Jobs/Get":         scoped(rota.RightRead),
	"/rota.v1.Jobs/List":        scoped(rota.RightRead),
	"/rota.v1.Jobs/Wait":        scoped(rota.RightRead),
	"/rota.v1.Jobs/Log":         scoped(rota.RightData),
	"/rota.v1.Jobs/Cancel":      scoped(rota.RightControl),
	"/rota.v1.Jobs/Retry":       scoped(rota.RightControl),
	"/rota.v1.Jobs/Change":      scoped(rota.RightControl),
	"/rota.v1.Jobs/Interrupt":   scoped(rota.RightControl),
	"/rota.v1.Jobs/RunNow":      scoped(rota.RightControl),
	"/rota.v1.Jobs/Delete":      scoped(rota.RightControl),
	"/rota.v1.Jobs/ReportProof": scoped(rota.RightVerdict),

	"/rota.v1.Workers/Work":    scoped(rota.RightWork),
	"/rota.v1.Workers/Gone":    scoped(rota.RightWork),
	"/rota.v1.Workers/List":    right(rota.RightStatus),
	"/rota.v1.Workers/Get":     right(rota.RightStatus),
	"/rota.v1.Workers/Drain":   scoped(rota.RightWorkers),
	"/rota.v1.Workers/Suspend": scoped(rota.RightWorkers),
	"/rota.v1.Workers/Resume":  scoped(rota.RightWorkers),
	"/rota.v1.Workers/Retire":  scoped(rota.RightWorkers),
	"/rota.v1.Workers/Delete":  scoped(rota.RightWorkers),

	"/rota.v1.Queues/List":      scoped(rota.RightRead),
	"/rota.v1.Queues/Get":       scoped(rota.RightRead),
	"/rota.v1.Queues/Set":       scoped(rota.RightQueue),
	"/rota.v1.Queues/Delete":    scoped(rota.RightQueue),
	"/rota.v1.Keys/Set":         scoped(rota.RightQueue),
	"/rota.v1.Keys/Delete":      scoped(rota.RightQueue),
	"/rota.v1.Keys/Skip":        scoped(rota.RightQueue),
	"/rota.v1.Keys/Pause":       scoped(rota.RightQueue),
	"/rota.v1.Keys/Resume":      scoped(rota.RightQueue),
	"/rota.v1.Budgets/Set":      scoped(rota.RightBudget),
	"/rota.v1.Budgets/Delete":   scoped(rota.RightBudget),
	"/rota.v1.Budgets/Reset":    scoped(rota.RightBudget),
	"/rota.v1.Budgets/Grant":    scoped(rota.RightGrant),
	"/rota.v1.Budgets/List":     scoped(rota.RightRead),
	"/rota.v1.Budgets/Get":      scoped(rota.RightRead),
	"/rota.v1.Budgets/Accounts": scoped(rota.RightRead),
	"/rota.v1.Keys/List":        scoped(rota.RightRead),
	"/rota.v1.Keys/Get":         scoped(rota.RightRead),
	"/rota.v1.Keys/States":      scoped(rota.RightRead),
	"/rota.v1.Tenants/List":     scoped(rota.RightRead),
	"/rota.v1.Tenants/Get":      scoped(rota.RightRead),
	"/rota.v1.Tenants/Set":      scoped(rota.RightTenant),
	"/rota.v1.Tenants/Delete":   scoped(rota.RightTenant),

	"/rota.v1.Schedules/List":     scoped(rota.RightRead),
	"/rota.v1.Schedules/Get":      scoped(rota.RightRead),
	"/rota.v1.Schedules/Next":     scoped(rota.RightRead),
	"/rota.v1.Schedules/Set":      scoped(rota.RightSubmit),
	"/rota.v1.Schedules/Trigger":  scoped(rota.RightSubmit),
	"/rota.v1.Schedules/Backfill": scoped(rota.RightSubmit),
	"/rota.v1.Schedules/Pause":    scoped(rota.RightControl),
	"/rota.v1.Schedules/Resume":   scoped(rota.RightControl),
	"/rota.v1.Schedules/Delete":   scoped(rota.RightControl),

	"/rota.v1.Webhooks/List":   scoped(rota.RightRead),
	"/rota.v1.Webhooks/Get":    either(rota.RightRead, rota.RightWork),
	"/rota.v1.Webhooks/Set":    scoped(rota.RightControl),
	"/rota.v1.Webhooks/Pause":  scoped(rota.RightControl),
	"/rota.v1.Webhooks/Resume": scoped(rota.RightControl),
	"/rota.v1.Webhooks/Skip":   scoped(rota.RightControl),
	"/rota.v1.Webhooks/Delete": scoped(rota.RightControl),

	"/rota.v1.Plans/List":    scoped(rota.RightControl),
	"/rota.v1.Plans/Get":     scoped(rota.RightControl),
	"/rota.v1.Plans/Start":   scoped(rota.RightControl),
	"/rota.v1.Plans/Preview": scoped(rota.RightControl),
	"/rota.v1.Plans/Cancel":  scoped(rota.RightControl),

	"/rota.v1.Batches/Open": scoped(rota.RightSubmit),
	"/rota.v1.Batches/Seal": scoped(rota.RightSubmit),
	"/rota.v1.Batches/Get":  scoped(rota.RightRead),
	"/rota.v1.Batches/List": scoped(rota.RightRead),
	"/rota.v1.Batches/Wait": scoped(rota.RightRead),

	"/rota.v1.Auth/WhoAmI":       known,
	"/rota.v1.Auth/Init":         judged(rota.RightAuth),
	"/rota.v1.Auth/CreateToken":  judged(rota.RightAuth),
	"/rota.v1.Auth/ListTokens":   right(rota.RightAuth),
	"/rota.v1.Auth/RevokeToken":  judged(rota.RightAuth),
	"/rota.v1.Auth/SetRole":      judged(rota.RightAuth),
	"/rota.v1.Auth/ListRoles":    right(rota.RightAuth),
	"/rota.v1.Auth/DeleteRole":   judged(rota.RightAuth),
	"/rota.v1.Auth/SetBlock":     judged(rota.RightAuth),
	"/rota.v1.Auth/ListBlocks":   right(rota.RightAuth),
	"/rota.v1.Auth/SetAnonymous": judged(rota.RightAuth),
	"/rota.v1.Auth/SetIssuer":    judged(rota.RightAuth),
	"/rota.v1.Auth/ListIssuers":  right(rota.RightAuth),
	"/rota.v1.Auth/DeleteIssuer": judged(rota.RightAuth),
	"/rota.v1.Auth/Exchange":     anybody,
	"/rota.v1.Auth/OpenSession":  known,
	"/rota.v1.Auth/ClaimSession": {known: true, judged: true},
	"/rota.v1.Auth/EndSession":   {known: true, judged: true},

	"/rota.v1.Workflows/Submit":        scoped(rota.RightSubmit),
	"/rota.v1.Workflows/Get":           scoped(rota.RightRead),
	"/rota.v1.Workflows/Show":          scoped(rota.RightRead),
	"/rota.v1.Workflows/List":          scoped(rota.RightRead),
	"/rota.v1.Workflows/Wait":          scoped(rota.RightRead),
	"/rota.v1.Workflows/Cancel":        scoped(rota.RightControl),
	"/rota.v1.Workflows/Retry":         scoped(rota.RightControl),
	"/rota.v1.Workflows/Signal":        scoped(rota.RightControl),
	"/rota.v1.Workflows/ParentOutputs": scoped(rota.RightWork),

	"/rota.v1.Explain/Why":  scoped(rota.RightRead),
	"/rota.v1.Explain/Eta":  scoped(rota.RightRead),
	"/rota.v1.Explain/Past": scoped(rota.RightRead),
	"/rota.v1.Events/Tail":  scoped(rota.RightRead),

	"GET /v1/events":         scoped(rota.RightRead),
	"GET /v1/live":           scoped(rota.RightRead),
	"GET /v1/stats":          right(rota.RightStatus),
	"GET /v1/attention":      scoped(rota.RightRead),
	"GET /v1/schedule-dates": scoped(rota.RightSubmit),
	"GET /openapi.json":      anybody,
	"GET /openapi-3.0.json":  anybody,

	"GET /v1/jobs":                                  scoped(rota.RightRead),
	"POST /v1/jobs":                                 scoped(rota.RightSubmit),
	"GET /v1/jobs/{id}":                             scoped(rota.RightRead),
	"PUT /v1/jobs/{id}":                             scoped(rota.RightSubmit),
	"DELETE /v1/jobs/{id}":                          scoped(rota.RightControl),
	"GET /v1/past":                                  scoped(rota.RightRead),
	"GET /v1/jobs/{id}/why":                         scoped(rota.RightRead),
	"GET /v1/jobs/{id}/eta":                         scoped(rota.RightRead),
	"GET /v1/jobs/{id}/logs":                        scoped(rota.RightData),
	"GET /v1/jobs/{id}/payload":                     scoped(rota.RightRead),
	"GET /v1/jobs/{id}/output":                      scoped(rota.RightRead),
	"POST /v1/jobs/{id}/cancel":                     scoped(rota.RightControl),
	"POST /v1/jobs/{id}/retry":                      scoped(rota.RightControl),
	"POST /v1/jobs/{id}/change":                     scoped(rota.RightControl),
	"POST /v1/jobs/{id}/interrupt":                  scoped(rota.RightControl),
	"POST /v1/jobs/{id}/run-now":                    scoped(rota.RightControl),
	"GET /v1/queues":                                scoped(rota.RightRead),
	"GET /v1/queues/{id}":                           scoped(rota.RightRead),
	"PUT /v1/queues/{id}":                           scoped(rota.RightQueue),
	"DELETE /v1/queues/{id}":                        scoped(rota.RightQueue),
	"POST /v1/queues/{id}/pause":                    scoped(rota.RightQueue),
	"POST /v1/queues/{id}/resume":                   scoped(rota.RightQueue),
	"GET /v1/tenants":                               scoped(rota.RightRead),
	"GET /v1/tenants/{id}":                          scoped(rota.RightRead),
	"PUT /v1/tenants/{id}":                          scoped(rota.RightTenant),
	"DELETE /v1/tenants/{id}":                       scoped(rota.RightTenant),
	"GET /v1/workers":                               right(rota.RightStatus),
	"GET /v1/workers/{id}":                          right(rota.RightStatus),
	"DELETE /v1/workers/{id}":                       scoped(rota.RightWorkers),
	"POST /v1/workers/{id}/drain":                   scoped(rota.RightWorkers),
	"POST /v1/workers/{id}/suspend":                 scoped(rota.RightWorkers),
	"POST /v1/workers/{id}/resume":                  scoped(rota.RightWorkers),
	"POST /v1/workers/{id}/retire":                  scoped(rota.RightWorkers),
	"POST /v1/workers/{id}/acquire":                 scoped(rota.RightWork),
	"POST /v1/workers/{id}/beat":                    scoped(rota.RightWork),
	"POST /v1/workers/{id}/unregister":              scoped(rota.RightWork),
	"POST /v1/workers/{id}/leases/{lease}/complete": scoped(rota.RightWork),
	"POST /v1/workers/{id}/leases/{lease}/fail":     scoped(rota.RightWork),
	"POST /v1/workers/{id}/leases/{lease}/decline":  scoped(rota.RightWork),
	"POST /v1/workers/{id}/leases/{lease}/progress": scoped(rota.RightWork),
	"GET /v1/cluster":                               right(rota.RightStatus),
	"PUT /v1/cluster":                               right(rota.RightOperate),
	"GET /v1/cluster/mode":                          right(rota.RightStatus),
	"PUT /v1/cluster/mode":                          right(rota.RightOperate),
	"PUT /v1/cluster/tzdata":                        right(rota.RightOperate),
	"GET /v1/cluster/peers":                         right(rota.RightStatus),
	"POST /v1/cluster/verify":                       right(rota.RightOperate),
	"GET /v1/batches":                               scoped(rota.RightRead),
	"GET /v1/batches/{id}":                          scoped(rota.RightRead),
	"PUT /v1/batches/{id}":                          scoped(rota.RightSubmit),
	"POST /v1/batches/{id}/seal":                    scoped(rota.RightSubmit),
	"GET /v1/schedules":                             scoped(rota.RightRead),
	"GET /v1/schedules/{id}":                        scoped(rota.RightRead),
	"PUT /v1/schedules/{id}":                        scoped(rota.RightSubmit),
	"DELETE /v1/schedules/{id}":                     scoped(rota.RightControl),
	"GET /v1/schedules/{id}/next":                   scoped(rota.RightRead),
	"POST /v1/schedules/{id}/pause":                 scoped(rota.RightControl),
	"POST /v1/schedules/{id}/resume":                scoped(rota.RightControl),
	"POST /v1/schedules/{id}/trigger":               scoped(rota.RightSubmit),
	"GET /v1/whoami":                                known,
	"POST /v1/sessions":                             known,
	"POST /v1/sessions/{id}/claim":                  {known: true, judged: true},
	"DELETE /v1/sessions/{id}":                      {known: true, judged: true},
	"DELETE /v1/blocks/{role}/{id}":                 judged(rota.RightAuth),
	"DELETE /v1/cluster/peers/{id}":                 right(rota.RightOperate),
	"DELETE /v1/issuers":                            judged(rota.RightAuth),
	"PUT /v1/budgets/{id}":                          scoped(rota.RightBudget),
	"DELETE /v1/budgets/{id}":                       scoped(rota.RightBudget),
	"POST /v1/budgets/{id}/reset":                   scoped(rota.RightBudget),
	"POST /v1/budgets/{id}/grant":                   scoped(rota.RightGrant),
	"GET /v1/budgets":                               scoped(rota.RightRead),
	"GET /v1/budgets/{id}":                          scoped(rota.RightRead),
	"GET /v1/budgets/{id}/accounts":                 scoped(rota.RightRead),
	"DELETE /v1/key-rules/{id}":                     scoped(rota.RightQueue),
	"DELETE /v1/plans/{id}":                         scoped(rota.RightControl),
	"DELETE /v1/roles/{id}":                         judged(rota.RightAuth),
	"DELETE /v1/tokens/{id}":                        judged(rota.RightAuth),
	"GET /v1/blocks":                                right(rota.RightAuth),
	"GET /v1/cluster/snapshot":                      {right: rota.RightBackup, alone: true},
	"GET /v1/issuers":                               right(rota.RightAuth),
	"GET /v1/key-rules":                             scoped(rota.RightRead),
	"GET /v1/key-rules/{id}":                        scoped(rota.RightRead),
	"GET /v1/keys":                                  scoped(rota.RightRead),
	"GET /v1/key-states":                            scoped(rota.RightRead),
	"GET /v1/plans":                                 scoped(rota.RightControl),
	"GET /v1/plans/{id}":                            scoped(rota.RightControl),
	"GET /v1/roles":                                 right(rota.RightAuth),
	"GET /v1/settings":                              known,
	"GET /v1/tokens":                                right(rota.RightAuth),
	"GET /v1/workflows":                             scoped(rota.RightRead),
	"GET /v1/workflows/{id}":                        scoped(rota.RightRead),
	"GET /v1/workflows/{id}/nodes/{node}":           scoped(rota.RightRead),
	"POST /v1/cluster/backup":                       right(rota.RightBackup),
	"POST /v1/cluster/leave":                        right(rota.RightOperate),
	"POST /v1/cluster/transfer":                     right(rota.RightOperate),
	"POST /v1/exchange":                             anybody,
	"POST /v1/jobs/{id}/report-proof":               scoped(rota.RightVerdict),
	"POST /v1/jobs:cancel":                          scoped(rota.RightControl),
	"POST /v1/jobs:delete":                          scoped(rota.RightControl),
	"POST /v1/jobs:retry":                           scoped(rota.RightControl),
	"POST /v1/jobs:wait":                            scoped(rota.RightRead),
	"POST /v1/keys/skip":                            scoped(rota.RightQueue),
	"POST /v1/keys/pause":                           scoped(rota.RightQueue),
	"POST /v1/keys/resume":                          scoped(rota.RightQueue),
	"POST /v1/schedules/{id}/backfill":              scoped(rota.RightSubmit),
	"POST /v1/workflows/{id}/cancel":                scoped(rota.RightControl),
	"POST /v1/workflows/{id}/nodes/{node}/signal":   scoped(rota.RightControl),
	"POST /v1/workflows/{id}/retry":                 scoped(rota.RightControl),
	"PUT /v1/anonymous":                             judged(rota.RightAuth),
	"PUT /v1/blocks/{role}/{id}":                    judged(rota.RightAuth),
	"PUT /v1/issuers":                               judged(rota.RightAuth),
	"PUT /v1/key-rules/{id}":                        scoped(rota.RightQueue),
	"PUT /v1/plans/{id}":                            scoped(rota.RightControl),
	"PUT /v1/roles/{id}":                            judged(rota.RightAuth),
	"PUT /v1/tokens/{id}":                           judged(rota.RightAuth),
	"PUT /v1/workflows/{id}":                        scoped(rota.RightSubmit),
	"GET /v1/queues/{id}/lanes":                     scoped(rota.RightRead),
	"GET /v1/rounds/{epoch}":                        right(rota.RightRead),
	"GET /v1/cluster/views":                         right(rota.RightStatus),
	"GET /v1/webhooks":                              scoped(rota.RightRead),
	"GET /v1/webhooks/{id}":                         either(rota.RightRead, rota.RightWork),
	"PUT /v1/webhooks/{id}":                         scoped(rota.RightControl),
	"DELETE /v1/webhooks/{id}":                      scoped(rota.RightControl),
	"POST /v1/webhooks/{id}/pause":                  scoped(rota.RightControl),
	"POST /v1/webhooks/{id}/resume":                 scoped(rota.RightControl),
	"POST /v1/webhooks/{id}/skip":                   scoped(rota.RightControl),

	"/rota.v1.Cluster/Status":             right(rota.RightStatus),
	"/rota.v1.Cluster/Attention":          scoped(rota.RightRead),
	"/rota.v1.Cluster/Peers":              right(rota.RightStatus),
	"/rota.v1.Cluster/GetMode":            right(rota.RightStatus),
	"/rota.v1.Cluster/SetMode":            right(rota.RightOperate),
	"/rota.v1.Cluster/Set":                right(rota.RightOperate),
	"/rota.v1.Cluster/TransferLeadership": right(rota.RightOperate),
	"/rota.v1.Cluster/RemovePeer":         right(rota.RightOperate),
	"/rota.v1.Cluster/Leave":              right(rota.RightOperate),
	"/rota.v1.Cluster/Verify":             right(rota.RightOperate),
	"/rota.v1.Cluster/SaveSnapshot":       {right: rota.RightBackup, alone: true},
	"/rota.v1.Cluster/StoreBackup":        right(rota.RightBackup),
	"/rota.v1.Cluster/InstallTZData":      right(rota.RightOperate),

	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      right(rota.RightStatus),
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": right(rota.RightStatus),

	"/grpc.health.v1.Health/Check": anybody,
	"/grpc.health.v1.Health/List":  anybody,
	"/grpc.health.v1.Health/Watch": anybody,

	"/rota.v1.Node/Forward":        members,
	"/rota.v1.Node/Beat":           members,
	"/rota.v1.Node/Barrier":        members,
	"/rota.v1.Node/Inspect":        members,
	"/rota.v1.Node/Check":          members,
	"/rota.v1.Node/EventRange":     members,
	"/rota.v1.Node/Introduce":      members,
	"/rota.v1.Node/Remove":         members,
	"/rota.v1.Node/Transfer":       members,
	"/rota.v1.Node/ArchiveRange":   members,
	"/rota.v1.Node/ArchiveSums":    members,
	"/rota.v1.Node/ArchiveRecords": members,
	"/rota.v1.Node/ListArchived":   members,
	"/rota.v1.Node/Log":            members,
	"/rota.v1.Node/State":          members,
}
