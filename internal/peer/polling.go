package peer

import "github.com/rotasched/rota"

// Standing is how a worker's session stands in a node's replica.
type Standing struct {
	Status rota.WorkerStatus
	// Poll is the newest poll that the state has heard of, Offered how many more leases it takes.
	Poll    uint64
	Offered int32
	// Leases are those that are open, the oldest first, revoked ones too.
	Leases []rota.Assignment
}
