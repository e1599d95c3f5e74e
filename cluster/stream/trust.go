package stream

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/rotasched/rota"
)

// trustEvery is how often the peer of an open connection is checked again: raft's connections last as long as its
// nodes.
const trustEvery = 10 * time.Second

// certified rejects a peer whose hello names another node than its certificate.
func (s *Layer) certified(peer Hello, state tls.ConnectionState) error {
	if s.opts.NodeOf == nil {
		return nil // without TLS, ids are trusted
	}
	id, err := s.opts.NodeOf(state)
	if err != nil {
		return fmt.Errorf("%w: %w", errDenied, err)
	}
	if id != peer.Node {
		return fmt.Errorf("%w: it claims to be node %s, its certificate is node %s's", errDenied, peer.Node, id)
	}
	return nil
}

// Rejudge checks the peers of all open connections immediately, for example after a removal.
func (s *Layer) Rejudge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.inbound {
		notify(conn.again)
	}
	for conn := range s.outbound { // in any order: each has its own loop
		notify(conn.again)
	}
}

// watchTrust closes the connection when the peer's certificate is no longer valid or the peer no longer admitted.
func (c *peerConn) watchTrust(peer Hello, state tls.ConnectionState) {
	s := c.layer
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return // and the connection is closed with it
	}
	s.done.Go(func() {
		for {
			every := trustEvery
			if certs := state.PeerCertificates; len(certs) > 0 {
				every = min(every, max(0, time.Until(certs[0].NotAfter))+time.Millisecond)
			}
			wait := time.NewTimer(every)
			select {
			case <-c.ended:
				wait.Stop()
				return
			case <-c.again:
				wait.Stop()
			case <-wait.C:
			}
			err := s.certified(peer, state)
			if err == nil && s.opts.Admit != nil {
				err = s.opts.Admit(peer)
			}
			if err == nil || rota.KindOf(err) == rota.KindUnavailable {
				continue
			}
			s.count(func(counts *Counts) { counts.Untrusted++ })
			if s.lines.Allow("untrusted/" + string(peer.Node)) {
				s.opts.Logger.Warn("raft connection closed: its peer no longer counts",
					"peer", c.RemoteAddr().String(), "node", peer.Node, "error", err)
			}
			_ = c.Close()
			return
		}
	})
}
