package transport

import "github.com/rotasched/rota/internal/access"

// need says what a call of a method takes of its caller.
type need struct {
	// right is the one that the caller must hold; none where the next two say otherwise.
	right access.Right
	// scoped says that applying judges each object, by its tenant and queue: the door asks only
	// whether the right is granted over anything. Elsewhere it must be granted over everything.
	scoped bool
	// anybody's calls take no credential; members' are those of other nodes, which show a node's
	// certificate and no client's credential.
	anybody, members bool
}

// right is needed over everything.
func right(r access.Right) need { return need{right: r} }

// scoped needs a right over what the call is about.
func scoped(r access.Right) need { return need{right: r, scoped: true} }

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

var (
	anybody = need{anybody: true}
	members = need{members: true}
)

// methods is the one table of calls and the rights that they need. What is not in it is
// nobody's: TestMethods finds what is missing or stale.
var methods = map[string]need{
	"/rota.v1.Jobs/Submit":      scoped(access.RightSubmit),
	"/rota.v1.Jobs/Get":         right(access.RightRead),
	"/rota.v1.Jobs/List":        right(access.RightRead),
	"/rota.v1.Jobs/Wait":        right(access.RightRead),
	"/rota.v1.Jobs/Cancel":      scoped(access.RightControl),
	"/rota.v1.Jobs/Retry":       scoped(access.RightControl),
	"/rota.v1.Jobs/Change":      scoped(access.RightControl),
	"/rota.v1.Jobs/Delete":      scoped(access.RightControl),
	"/rota.v1.Jobs/ReportProof": scoped(access.RightVerdict),

	"/rota.v1.Workers/Work":    scoped(access.RightWork),
	"/rota.v1.Workers/Gone":    scoped(access.RightWork),
	"/rota.v1.Workers/List":    right(access.RightStatus),
	"/rota.v1.Workers/Get":     right(access.RightStatus),
	"/rota.v1.Workers/Drain":   scoped(access.RightWorkers),
	"/rota.v1.Workers/Suspend": scoped(access.RightWorkers),
	"/rota.v1.Workers/Resume":  scoped(access.RightWorkers),
	"/rota.v1.Workers/Retire":  scoped(access.RightWorkers),
	"/rota.v1.Workers/Delete":  scoped(access.RightWorkers),

	"/rota.v1.Queues/List":    right(access.RightRead),
	"/rota.v1.Queues/Get":     right(access.RightRead),
	"/rota.v1.Queues/Set":     scoped(access.RightQueue),
	"/rota.v1.Queues/Delete":  scoped(access.RightQueue),
	"/rota.v1.Tenants/List":   right(access.RightRead),
	"/rota.v1.Tenants/Get":    right(access.RightRead),
	"/rota.v1.Tenants/Set":    scoped(access.RightTenant),
	"/rota.v1.Tenants/Delete": scoped(access.RightTenant),

	"/rota.v1.Workflows/Submit":        scoped(access.RightSubmit),
	"/rota.v1.Workflows/Get":           right(access.RightRead),
	"/rota.v1.Workflows/Show":          right(access.RightRead),
	"/rota.v1.Workflows/List":          right(access.RightRead),
	"/rota.v1.Workflows/Wait":          right(access.RightRead),
	"/rota.v1.Workflows/Cancel":        scoped(access.RightControl),
	"/rota.v1.Workflows/Retry":         scoped(access.RightControl),
	"/rota.v1.Workflows/ParentOutputs": right(access.RightWork),

	"/rota.v1.Explain/Why": right(access.RightRead),
	"/rota.v1.Events/Tail": right(access.RightRead),
	"GET /v1/events":       right(access.RightRead),

	"/rota.v1.Cluster/Status":             right(access.RightStatus),
	"/rota.v1.Cluster/Peers":              right(access.RightStatus),
	"/rota.v1.Cluster/GetMode":            right(access.RightStatus),
	"/rota.v1.Cluster/SetMode":            right(access.RightOperate),
	"/rota.v1.Cluster/Set":                right(access.RightOperate),
	"/rota.v1.Cluster/TransferLeadership": right(access.RightOperate),
	"/rota.v1.Cluster/RemovePeer":         right(access.RightOperate),
	"/rota.v1.Cluster/Leave":              right(access.RightOperate),
	"/rota.v1.Cluster/Verify":             right(access.RightOperate),
	"/rota.v1.Cluster/SaveSnapshot":       right(access.RightBackup),

	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      right(access.RightStatus),
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": right(access.RightStatus),

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
