package peer

import "github.com/rotasched/rota"

// Standing is the state of a worker's session in a node's replica.
type Standing struct {
	Status rota.WorkerStatus
	// Poll is the newest poll known to the state, Offered how many more leases it accepts.
	Poll    uint64
	Offered int32
	// Leases holds the open leases, the oldest first, revoked ones too.
	Leases []rota.Assignment
}
