package transport

import (
	"net"
	"os"

	"google.golang.org/grpc/credentials"

	"github.com/rotasched/rota"
)

// localConnections bounds the connections to a node's own socket.
const localConnections = 16

// ServeLocal answers calls on a node's own socket, whose callers are the account that the node runs as and root:
// [rota.Local], whatever the node requires of others. It returns nil once the server ends.
func (s *Server) ServeLocal(lis *net.UnixListener) error {
	err := s.grpc.Serve(CapListener(lis, localConnections, connGrace, s.log))
	if err != nil && s.draining.Err() == nil {
		return &rota.Error{Kind: rota.KindInternal, Op: "serve", Text: "listen at " + lis.Addr().String(), Cause: err}
	}
	return nil
}

// greetLocal asks the system for the account at the other end of the node's socket.
func (s *sorter) greetLocal(own *cappedConn, conn *net.UnixConn) (net.Conn, credentials.AuthInfo, error) {
	uid, err := peerUID(conn)
	info := edgeInfo{TLSInfo: credentials.TLSInfo{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}},
		seat: own.seat, local: true, stranger: strangerAt(uid, err)}
	return s.server.inflight.follow(own), info, nil
}

// strangerAt rejects any account other than the one that the node runs as and root.
func strangerAt(uid int, err error) error {
	switch own := os.Getuid(); {
	case err != nil:
		return rota.Refusef(rota.KindDenied, "socket",
			"the operating system does not report who calls on the node's socket: %v", err)
	case uid != own && uid != 0:
		return rota.Refusef(rota.KindDenied, "socket",
			"uid %d called on the node's socket: call as the node's uid %d, or as root", uid, own)
	}
	return nil
}
