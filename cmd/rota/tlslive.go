package main

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/identity"
)

const (
	// tlsWarnAhead is how long before its certificate's end a node says so, once a day.
	tlsWarnAhead = 14 * 24 * time.Hour
	// verdictsMost bounds the nodes' certificates whose judgement is remembered, and
	// verdictsLast for how long: an authority between may end before its certificates.
	verdictsMost = 1_000
	verdictsLast = time.Hour
)

// liveTLS is what the files hold now: a certificate that was renewed counts from the
// next connection on, without a restart. Files that cannot be read leave what there was,
// as a renewal writes them one after the other.
type liveTLS struct {
	files tlsFiles
	// member, where set, is the node whose certificate it must be.
	member *memberTLS

	mu          sync.Mutex
	read        bool
	stamps      [4]fileStamp
	certificate *tls.Certificate
	// nodes and clients are the authorities of either; clients is nil where clients show
	// no certificates.
	nodes, clients *x509.CertPool
	// ids are of the nodes whose certificates were judged, by their hashes, under this
	// pool: open connections are judged again and again.
	ids    map[[32]byte]judgedNode
	failed error
	warned time.Time
}

// memberTLS is what a node's own certificate must say.
type memberTLS struct {
	domain string
	node   rota.NodeID
	// clientCA is the file with the authorities of clients' certificates.
	clientCA string
}

// judgedNode is the id in a certificate that was found right, and how long that holds.
type judgedNode struct {
	id    rota.NodeID
	until time.Time
}

// fileStamp changes when a file does.
type fileStamp struct {
	size    int64
	changed time.Time
}

// stampOf returns the stamp of a file; the zero one where there is none.
func stampOf(path string) (s fileStamp) {
	if path == "" {
		return s
	}
	if info, err := os.Stat(path); err == nil {
		s = fileStamp{info.Size(), info.ModTime()}
	}
	return s
}

// leaf returns the certificate as it is now.
func (l *liveTLS) leaf() *x509.Certificate {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.certificate == nil {
		return nil
	}
	return l.certificate.Leaf
}

// live reads the files; an error names the one that is wrong. With a member the
// certificate must be that node's.
func (f tlsFiles) live(member *memberTLS) (*liveTLS, error) {
	l := &liveTLS{files: f, member: member}
	if _, err := l.look(); err != nil {
		return nil, err
	}
	return l, nil
}

// look reads the files again if one changed.
func (l *liveTLS) look() (changed bool, err error) {
	paths := [4]string{l.files.cert, l.files.key, l.files.ca}
	if l.member != nil {
		paths[3] = l.member.clientCA
	}
	var stamps [4]fileStamp
	for i, path := range paths {
		stamps[i] = stampOf(path)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.read && stamps == l.stamps {
		return false, nil
	}
	var certificate *tls.Certificate
	if l.files.cert != "" || l.files.key != "" {
		if certificate, err = l.files.certificate(); err != nil {
			return false, err
		}
	}
	nodes, err := readPool(l.files.ca)
	if err != nil {
		return false, err
	}
	var clients *x509.CertPool
	if l.member != nil {
		if err := l.member.check(certificate, nodes); err != nil {
			return false, err
		}
		if clients, err = readPool(l.member.clientCA); err != nil {
			return false, err
		}
	}
	l.certificate, l.nodes, l.clients, l.stamps, l.read = certificate, nodes, clients, stamps, true
	l.ids, l.warned = make(map[[32]byte]judgedNode), time.Time{}
	return true, nil
}

// check refuses a certificate that is not this node's: others would refuse it.
func (m *memberTLS) check(own *tls.Certificate, nodes *x509.CertPool) error {
	chain := make([]*x509.Certificate, len(own.Certificate))
	for i, der := range own.Certificate {
		var err error
		if chain[i], err = x509.ParseCertificate(der); err != nil {
			return failf("read certificate: %w", err)
		}
	}
	id, err := identity.Node(chain, nodes, m.domain)
	if err == nil && id != m.node {
		err = fmt.Errorf("it is node %s's, this is node %s", id, m.node)
	}
	if err != nil {
		return failf("this node's certificate is refused: %w. Have one issued for %s, or make one with: rota tls issue", err, m.uri())
	}
	return nil
}

func (m *memberTLS) uri() string {
	uri, err := identity.NodeURI(m.domain, m.node)
	if err != nil {
		return err.Error()
	}
	return uri
}

// nodeOf returns the id of the node whose certificate stands behind a connection, and what
// is wrong with it now.
func (l *liveTLS) nodeOf(state tls.ConnectionState) (rota.NodeID, error) {
	if len(state.PeerCertificates) == 0 {
		return identity.Node(nil, nil, l.member.domain)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key, now := sha256.Sum256(state.PeerCertificates[0].Raw), time.Now()
	if known, ok := l.ids[key]; ok && now.Before(known.until) {
		return known.id, nil
	}
	id, err := identity.Node(state.PeerCertificates, l.nodes, l.member.domain)
	if err != nil {
		return "", err
	}
	if len(l.ids) >= verdictsMost {
		clear(l.ids)
	}
	until := now.Add(verdictsLast)
	for _, c := range state.PeerCertificates {
		if c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	l.ids[key] = judgedNode{id, until}
	return id, nil
}

// clientOf returns role and name in a client's certificate.
func (l *liveTLS) clientOf(state tls.ConnectionState) (role, name string, err error) {
	l.mu.Lock()
	clients := l.clients
	l.mu.Unlock()
	return identity.Client(state.PeerCertificates, clients, l.member.domain)
}

// anyone takes who shows no certificate, a node's, or a client's: each by its own
// authorities, so that neither passes for the other.
func (l *liveTLS) anyone(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	_, ofNode := l.nodeOf(state)
	if ofNode == nil {
		return nil
	}
	_, _, ofClient := l.clientOf(state)
	if ofClient == nil {
		return nil
	}
	return fmt.Errorf("a certificate is neither a node's (%w) nor a client's (%w)", ofNode, ofClient)
}

// serving is the node's side for clients: it shows its certificate and judges one
// that is shown to it.
func (l *liveTLS) serving() *tls.Config { return identity.Serving(l.current, l.anyone) }

// mutual is the node's side towards other nodes: both ends show their certificate.
func (l *liveTLS) mutual() *tls.Config {
	return identity.Between(l.current, func(state tls.ConnectionState) error { _, err := l.nodeOf(state); return err })
}

// authorities returns those of nodes as they are now.
func (l *liveTLS) authorities() *x509.CertPool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nodes
}

// current returns the certificate of now.
func (l *liveTLS) current() *tls.Certificate {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.certificate
}

// show returns the certificate of now to who asks for one.
func (l *liveTLS) show(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if certificate := l.current(); certificate != nil {
		return certificate, nil
	}
	return &tls.Certificate{}, nil
}

// tell looks once and logs a change, a fault that is new, and an end that is near.
func (l *liveTLS) tell(log *slog.Logger, now time.Time) {
	changed, err := l.look()
	l.mu.Lock()
	defer l.mu.Unlock()
	ends := l.certificate.Leaf.NotAfter
	switch {
	case err != nil && (l.failed == nil || l.failed.Error() != err.Error()):
		log.Error("certificate files changed and cannot be read: what was read before still counts", "error", err)
	case changed:
		log.Info("certificate files were read again", "cert", l.files.cert, "not_after", ends)
	}
	l.failed = err
	if left := ends.Sub(now); left < tlsWarnAhead && now.Sub(l.warned) >= 24*time.Hour {
		l.warned = now
		log.Warn("this node's certificate ends soon: renew it, the files are read again by themselves", "cert", l.files.cert,
			"not_after", ends, "days_left", int(left.Hours()/24))
	}
}
