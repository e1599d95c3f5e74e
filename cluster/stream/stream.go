package stream

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/rotasched/rota"
)

// Hello is what a node says of itself before the first byte of raft.
type Hello struct {
	// ClusterName is the --cluster name; both sides must have the same.
	ClusterName string
	// ClusterID is empty on a node that has not learnt it yet; two known ones
	// must be the same (SPEC §13.4).
	ClusterID rota.ClusterID
	// Node is the id in the data directory.
	Node rota.NodeID
	// Identity is that of the data directory, 32 hex digits.
	Identity string
	// Dialled reports, to Admit, that this node called the peer.
	Dialled bool
}

// Options are the choices of a Layer. The zero value is usable.
type Options struct {
	// Admit refuses a peer whose hello is in order, such as a removed one. nil
	// admits all. It must be quick and may be called concurrently, and again and again
	// while the connection is open: kind Unavailable then leaves it as it is.
	Admit func(peer Hello) error
	// ServerTLS and ClientTLS put TLS beneath the handshake. NodeOf returns the id in the
	// peer's certificate, which must be the one in its hello, or what is wrong with the
	// certificate now (SECURITY §1.4). All three or none.
	ServerTLS, ClientTLS *tls.Config
	NodeOf               func(tls.ConnectionState) (rota.NodeID, error)
	// HandshakeTimeout bounds TLS and hello together; 0 stands for 5 s.
	HandshakeTimeout time.Duration
	// MaxInbound bounds inbound connections, MaxPerNode those from one node id;
	// 0 stands for 64 and 16.
	MaxInbound, MaxPerNode int
	// FrameMax bounds the bytes of one RPC other than a snapshot's body; 0
	// stands for 40 MiB. It must exceed raft's MaxAppendEntries × limits.MaxEntryBytes.
	FrameMax int64
	// Listen and Dial make the connections; nil is TCP. Dial ends with ctx.
	Listen func(address string) (net.Listener, error)
	Dial   func(ctx context.Context, address string) (net.Conn, error)
	// Logger receives refusals, at most one a minute and peer; nil discards them.
	Logger *slog.Logger
}

// Counts count what became of connections since the start.
type Counts struct {
	Accepted, Dialled, Foreign, Denied, Malformed, Crowded, Oversized uint64
	// Guarded are requests of nodes that were refused before raft, Untrusted are
	// connections that ended as the peer, or its certificate, no longer counted.
	Guarded, Untrusted uint64
}
