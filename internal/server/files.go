package server

import "github.com/rotasched/rota"

// How the files that a process may have open are shared (SECURITY §2.7): a cap beyond them
// would have one port take what another needs to answer.
const (
	// filesKept are for what is no accepted connection: the log, the archive, connections
	// to other nodes.
	filesKept = 128
	// nodeConnections are what the other ports of a node accept: raft's, 64 and 64 that
	// greet, gossip's, and those of its socket.
	nodeConnections = 128 + 16 + 16
	// apiConnections are as many as the API ever has, leastConnections as few as it can do with.
	apiConnections   = 10_000
	leastConnections = 16
)

// connections returns how many the API of each of so many nodes may have, in a process that
// may open so many files.
func connections(files uint64, nodes int) (int, error) {
	nodes = max(1, nodes)
	fixed := uint64(nodes) * (adminConnections + nodeConnections)
	least := filesKept + fixed + uint64(nodes)*leastConnections
	if files < least {
		return 0, rota.Refusef(rota.KindInvalid, "open files", "this process may open %d files, %d nodes in it need %d: raise the "+
			"limit (`ulimit -n %d`, LimitNOFILE in a systemd unit)", files, nodes, least, least)
	}
	return int(min(apiConnections, (files-filesKept-fixed)/uint64(nodes))), nil
}
