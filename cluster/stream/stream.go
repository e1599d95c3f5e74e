package stream

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/rotasched/rota"
)

// Hello identifies a node before the first byte of raft.
type Hello struct {
	// ClusterName is the --cluster name; both sides must have the same.
	ClusterName string
	// ClusterID is empty on a node that has not learnt it yet; two known ones must be equal (SPEC §13.4).
	ClusterID rota.ClusterID
	// Node is the id in the data directory.
	Node rota.NodeID
	// Identity is the identity of the data directory, 32 hex digits.
	Identity string
	// Dialled reports to Admit that this node dialled the peer.
	Dialled bool
}

// Options configures a Layer. The zero value is usable.
type Options struct {
	// Admit rejects a peer with a valid hello, such as a removed node. nil admits all. It must be quick and may be
	// called concurrently, and repeatedly while the connection is open: kind Unavailable then leaves the connection as
	// it is.
	Admit func(peer Hello) error
	// ServerTLS and ClientTLS enable TLS below the handshake. NodeOf returns the id in the peer's certificate, which
	// must be the one in its hello, or an error if the certificate is not valid now (SECURITY §1.4). All three or none
	// must be set.
	ServerTLS, ClientTLS *tls.Config
	NodeOf               func(tls.ConnectionState) (rota.NodeID, error)
	// HandshakeTimeout bounds TLS and hello together; 0 means 5 s.
	HandshakeTimeout time.Duration
	// MaxInbound bounds inbound connections, MaxPerNode those from one node id; 0 means 64 and 16.
	MaxInbound, MaxPerNode int
	// FrameMax bounds the bytes of one RPC, except for a snapshot's body; 0 means 40 MiB. It must exceed raft's
	// MaxAppendEntries × limits.MaxEntryBytes.
	FrameMax int64
	// Listen and Dial create the connections; nil means TCP. Dial ends with ctx.
	Listen func(address string) (net.Listener, error)
	Dial   func(ctx context.Context, address string) (net.Conn, error)
	// Logger receives rejections, at most one per minute and peer; nil discards them.
	Logger *slog.Logger
}

// Counts holds the number of connections by outcome since the start.
type Counts struct {
	Accepted, Dialled, Foreign, Denied, Malformed, Crowded, Oversized uint64
	// Guarded counts requests of nodes that were rejected before raft, Untrusted connections that were closed because
	// the peer or its certificate was no longer valid.
	Guarded, Untrusted uint64
}
