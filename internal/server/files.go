package server

import "github.com/rotasched/rota"

// How the files that a process may have open are divided (SECURITY §2.7): with a higher cap one port could take what
// another needs to answer.
const (
	// filesKept are for everything but accepted connections: the log, the archive, connections to other nodes.
	filesKept = 128
	// nodeConnections are the connections that the other ports of a node accept: raft's, 64 and 64 in handshakes,
	// gossip's, and those of its socket.
	nodeConnections = 128 + 16 + 16
	// apiConnections is the maximum of the API, leastConnections its minimum.
	apiConnections   = 10_000
	leastConnections = 16
)

// connections returns how many connections the API of each node may have, in a process with this limit of open files
// and number of nodes.
func connections(files uint64, nodes int) (int, error) {
	nodes = max(1, nodes)
	fixed := uint64(nodes) * (adminConnections + nodeConnections)
	least := filesKept + fixed + uint64(nodes)*leastConnections
	if files < least {
		return 0, rota.Refusef(rota.KindInvalid, "open files",
			"this process may open %d files, %d nodes in it need %d: raise the "+
				"limit (`ulimit -n %d`, LimitNOFILE in a systemd unit)", files, nodes, least, least)
	}
	return int(min(apiConnections, (files-filesKept-fixed)/uint64(nodes))), nil
}
