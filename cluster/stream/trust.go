package stream

import (
	"crypto/tls"
	"fmt"
	"time"
)

// trustEvery is how often the certificate behind an open connection is judged anew:
// raft's connections last as long as its nodes.
const trustEvery = 10 * time.Second

// watchTrust ends the connection when the peer's certificate expires, or when
// VerifyConnection, which the handshake asked, takes it no more.
func (c *peerConn) watchTrust(state tls.ConnectionState) {
	if len(state.PeerCertificates) == 0 {
		return
	}
	config := c.layer.opts.ServerTLS
	if c.dialled {
		config = c.layer.opts.ClientTLS
	}
	leaf := state.PeerCertificates[0]
	c.layer.mu.Lock()
	defer c.layer.mu.Unlock()
	if c.layer.shut {
		return // and the connection is closed with it
	}
	c.layer.done.Go(func() {
		for {
			wait := time.NewTimer(min(trustEvery, max(0, time.Until(leaf.NotAfter))+time.Millisecond))
			select {
			case <-c.ended:
				wait.Stop()
				return
			case <-wait.C:
			}
			var err error
			switch {
			case time.Now().After(leaf.NotAfter):
				err = fmt.Errorf("its certificate expired at %s", leaf.NotAfter.Format(time.RFC3339))
			case config.VerifyConnection != nil:
				err = config.VerifyConnection(state)
			}
			if err == nil {
				continue
			}
			c.layer.count(func(counts *Counts) { counts.Untrusted++ })
			if c.layer.lines.Allow("untrusted/" + c.RemoteAddr().String()) {
				c.layer.opts.Logger.Warn("raft connection closed: the peer's certificate no longer counts",
					"peer", c.RemoteAddr().String(), "error", err)
			}
			_ = c.Close()
			return
		}
	})
}
