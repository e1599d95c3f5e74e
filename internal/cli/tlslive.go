package cli

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
	// TlsWarnAhead is how long before its certificate's end a node says so, once a day.
	TlsWarnAhead = 14 * 24 * time.Hour
	// maxVerdicts bounds the nodes' certificates whose judgement is remembered, and
	// verdictsLast for how long: an authority between may end before its certificates.
	maxVerdicts  = 1_000
	verdictsLast = time.Hour
)

// LiveTLS is what the files hold now: a certificate that was renewed counts from the
// next connection on, without a restart. Files that cannot be read leave what there was,
// as a renewal writes them one after the other.
type LiveTLS struct {
	files TLSFiles
	// member, where set, is the node whose certificate it must be.
	member *MemberTLS

	mu          sync.Mutex
	read        bool
	stamps      [4]FileStamp
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

// MemberTLS is what a node's own certificate must say.
type MemberTLS struct {
	Domain string
	Node   rota.NodeID
	// ClientCA is the file with the authorities of clients' certificates.
	ClientCA string
}

// judgedNode is the id in a certificate that was found right, and how long that holds.
type judgedNode struct {
	id    rota.NodeID
	until time.Time
}

// FileStamp changes when a file does.
type FileStamp struct {
	size    int64
	changed time.Time
}

// StampOf returns the stamp of a file; the zero one where there is none.
func StampOf(path string) (s FileStamp) {
	if path == "" {
		return s
	}
	if info, err := os.Stat(path); err == nil {
		s = FileStamp{info.Size(), info.ModTime()}
	}
	return s
}

// Leaf returns the certificate as it is now.
func (l *LiveTLS) Leaf() *x509.Certificate {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.certificate == nil {
		return nil
	}
	return l.certificate.Leaf
}

// Live reads the files; an error names the one that is wrong. With a member the
// certificate must be that node's.
func (f TLSFiles) Live(member *MemberTLS) (*LiveTLS, error) {
	l := &LiveTLS{files: f, member: member}
	if _, err := l.Look(); err != nil {
		return nil, err
	}
	return l, nil
}

// Look reads the files again if one changed.
func (l *LiveTLS) Look() (changed bool, err error) {
	paths := [4]string{l.files.Cert, l.files.Key, l.files.CA}
	if l.member != nil {
		paths[3] = l.member.ClientCA
	}
	var stamps [4]FileStamp
	for i, path := range paths {
		stamps[i] = StampOf(path)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.read && stamps == l.stamps {
		return false, nil
	}
	var certificate *tls.Certificate
	if l.files.Cert != "" || l.files.Key != "" {
		if certificate, err = l.files.Certificate(); err != nil {
			return false, err
		}
	}
	nodes, err := readPool(l.files.CA)
	if err != nil {
		return false, err
	}
	var clients *x509.CertPool
	if l.member != nil {
		if err := l.member.check(certificate, nodes); err != nil {
			return false, err
		}
		if clients, err = readPool(l.member.ClientCA); err != nil {
			return false, err
		}
	}
	l.certificate, l.nodes, l.clients, l.stamps, l.read = certificate, nodes, clients, stamps, true
	l.ids, l.warned = make(map[[32]byte]judgedNode), time.Time{}
	return true, nil
}

// check refuses a certificate that is not this node's: others would refuse it.
func (m *MemberTLS) check(own *tls.Certificate, nodes *x509.CertPool) error {
	chain := make([]*x509.Certificate, len(own.Certificate))
	for i, der := range own.Certificate {
		var err error
		if chain[i], err = x509.ParseCertificate(der); err != nil {
			return Failf("read certificate: %w", err)
		}
	}
	id, err := identity.Node(chain, nodes, m.Domain)
	if err == nil && id != m.Node {
		err = fmt.Errorf("it is node %s's, this is node %s", id, m.Node)
	}
	if err != nil {
		return Failf("this node's certificate is refused: %w. Have one issued for %s, or make one with: rota tls issue",
			err, m.URI())
	}
	return nil
}

// URI is the name that the certificate of this node must have, or why there is none.
func (m *MemberTLS) URI() string {
	uri, err := identity.NodeURI(m.Domain, m.Node)
	if err != nil {
		return err.Error()
	}
	return uri
}

// NodeOf returns the id of the node whose certificate stands behind a connection, and what
// is wrong with it now.
func (l *LiveTLS) NodeOf(state tls.ConnectionState) (rota.NodeID, error) {
	if len(state.PeerCertificates) == 0 {
		return identity.Node(nil, nil, l.member.Domain)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key, now := sha256.Sum256(state.PeerCertificates[0].Raw), time.Now()
	if known, ok := l.ids[key]; ok && now.Before(known.until) {
		return known.id, nil
	}
	id, err := identity.Node(state.PeerCertificates, l.nodes, l.member.Domain)
	if err != nil {
		return "", err
	}
	if len(l.ids) >= maxVerdicts {
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

// ClientOf returns role and name in a client's certificate.
func (l *LiveTLS) ClientOf(state tls.ConnectionState) (role, name string, err error) {
	l.mu.Lock()
	clients := l.clients
	l.mu.Unlock()
	return identity.Client(state.PeerCertificates, clients, l.member.Domain)
}

// Anyone takes who shows no certificate, a node's, or a client's: each by its own
// authorities, so that neither passes for the other.
func (l *LiveTLS) Anyone(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	_, ofNode := l.NodeOf(state)
	if ofNode == nil {
		return nil
	}
	_, _, ofClient := l.ClientOf(state)
	if ofClient == nil {
		return nil
	}
	return fmt.Errorf("a certificate is neither a node's (%w) nor a client's (%w)", ofNode, ofClient)
}

// Serving is the node's side for clients: it shows its certificate and judges one
// that is shown to it.
func (l *LiveTLS) Serving() *tls.Config { return identity.Serving(l.Current, l.Anyone) }

// Mutual is the node's side towards other nodes: both ends show their certificate.
func (l *LiveTLS) Mutual() *tls.Config {
	return identity.Between(l.Current, func(state tls.ConnectionState) error { _, err := l.NodeOf(state); return err })
}

// authorities returns those of nodes as they are now.
func (l *LiveTLS) authorities() *x509.CertPool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nodes
}

// Current returns the certificate of now.
func (l *LiveTLS) Current() *tls.Certificate {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.certificate
}

// show returns the certificate of now to who asks for one.
func (l *LiveTLS) show(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if certificate := l.Current(); certificate != nil {
		return certificate, nil
	}
	return &tls.Certificate{}, nil
}

// Tell looks once and logs a change, a fault that is new, and an end that is near.
func (l *LiveTLS) Tell(log *slog.Logger, now time.Time) {
	changed, err := l.Look()
	l.mu.Lock()
	defer l.mu.Unlock()
	ends := l.certificate.Leaf.NotAfter
	switch {
	case err != nil && (l.failed == nil || l.failed.Error() != err.Error()):
		log.Error("certificate files changed and cannot be read: what was read before still counts", "error", err)
	case changed:
		log.Info("certificate files were read again", "cert", l.files.Cert, "not_after", ends)
	}
	l.failed = err
	if left := ends.Sub(now); left < TlsWarnAhead && now.Sub(l.warned) >= 24*time.Hour {
		l.warned = now
		log.Warn("this node's certificate ends soon: renew it, the files are read again by themselves", "cert",
			l.files.Cert, "not_after", ends, "days_left", int(left.Hours()/24))
	}
}
