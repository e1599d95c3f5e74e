package transport

import "github.com/rotasched/rota"

// need says what a call of a method takes of its caller.
type need struct {
	// right is the one that the caller must hold; none where the next two say otherwise.
	right rota.Right
	// scoped says that each object is judged where it is changed or read, by its tenant and queue:
	// the door asks only whether the right is granted over anything. Elsewhere it must be granted
	// over everything.
	scoped bool
	// anybody's calls take no credential; members' are those of other nodes, which show a node's
	// certificate and no client's credential.
	anybody, members bool
	// known says that any caller may, whatever its rights are, whose credential counts.
	known bool
	// judged says that applying judges the call, and that its answer says what was done: it is told
	// to a caller who has given its right away by it.
	judged bool
	// alone says that a node serves it which nobody vouches for.
	alone bool
}

// right is needed over everything.
func right(r rota.Right) need { return need{right: r} }

// scoped needs a right over what the call is about.
func scoped(r rota.Right) need { return need{right: r, scoped: true} }

// judged needs a right over everything to change something.
func judged(r rota.Right) need { return need{right: r, judged: true} }

// where says over what the right is needed.
func (n need) where() string {
	switch {
	case n.scoped || !n.right.ByTenant() && !n.right.ByQueue():
		return ""
	case !n.right.ByTenant():
		return " in all queues"
	}
	return " of all tenants in all queues"
}

// Needs returns the right that a call takes of its caller, such as /rota.v1.Jobs/Submit;
// RightNone where any credential, or none, is enough. ok is false for what is not a client's
// call.
func Needs(method string) (r rota.Right, ok bool) {
	n, ok := methods[method]
	return n.right, ok && !n.members
}

var (
	anybody = need{anybody: true}
	members = need{members: true}
	known   = need{known: true}
)

// methods is the one table of calls and the rights that they need. What is not in it is
// nobody's: TestMethods finds what is missing or stale.
var methods = map[string]need{
	"/rota.v1.Jobs/Submit":      scoped(rota.RightSubmit),
	"/rota.v1.Jobs/Get":         scoped(rota.RightRead),
	"/rota.v1.Jobs/List":        scoped(rota.RightRead),
	"/rota.v1.Jobs/Wait":        scoped(rota.RightRead),
	"/rota.v1.Jobs/Cancel":      scoped(rota.RightControl),
	"/rota.v1.Jobs/Retry":       scoped(rota.RightControl),
	"/rota.v1.Jobs/Change":      scoped(rota.RightControl),
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

	"/rota.v1.Queues/List":    scoped(rota.RightRead),
	"/rota.v1.Queues/Get":     scoped(rota.RightRead),
	"/rota.v1.Queues/Set":     scoped(rota.RightQueue),
	"/rota.v1.Queues/Delete":  scoped(rota.RightQueue),
	"/rota.v1.Tenants/List":   scoped(rota.RightRead),
	"/rota.v1.Tenants/Get":    scoped(rota.RightRead),
	"/rota.v1.Tenants/Set":    scoped(rota.RightTenant),
	"/rota.v1.Tenants/Delete": scoped(rota.RightTenant),

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

	"/rota.v1.Workflows/Submit":        scoped(rota.RightSubmit),
	"/rota.v1.Workflows/Get":           scoped(rota.RightRead),
	"/rota.v1.Workflows/Show":          scoped(rota.RightRead),
	"/rota.v1.Workflows/List":          scoped(rota.RightRead),
	"/rota.v1.Workflows/Wait":          scoped(rota.RightRead),
	"/rota.v1.Workflows/Cancel":        scoped(rota.RightControl),
	"/rota.v1.Workflows/Retry":         scoped(rota.RightControl),
	"/rota.v1.Workflows/ParentOutputs": scoped(rota.RightWork),

	"/rota.v1.Explain/Why": scoped(rota.RightRead),
	"/rota.v1.Events/Tail": scoped(rota.RightRead),
	"GET /v1/events":       scoped(rota.RightRead),

	"/rota.v1.Cluster/Status":             right(rota.RightStatus),
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
	"/rota.v1.Node/ArchiveRecords": members,
	"/rota.v1.Node/ListArchived":   members,
	"/rota.v1.Node/State":          members,
}
