package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

const (
	// tlsLookEvery is how often the files are looked at.
	tlsLookEvery = 10 * time.Second
	// tlsWarnAhead is how long before its certificate's end a node says so, once a day.
	tlsWarnAhead = 14 * 24 * time.Hour
	// verdictsMost bounds the peers' certificates whose judgement is remembered.
	verdictsMost = 10_000
)

// liveTLS is what the three files hold now: a certificate that was renewed counts
// from the next connection on, without a restart. Files that cannot be read leave
// what there was, as a renewal writes them one after the other.
type liveTLS struct {
	files tlsFiles

	mu          sync.Mutex
	stamps      [3]fileStamp
	certificate *tls.Certificate
	pool        *x509.CertPool
	// verdicts are on peers' certificates, by their hashes, under this pool: open
	// connections are judged again and again.
	verdicts map[[32]byte]error
	failed   error
	warned   time.Time
}

// fileStamp changes when a file does.
type fileStamp struct {
	size    int64
	changed time.Time
}

// live reads the files; an error names the one that is wrong.
func (f tlsFiles) live() (*liveTLS, error) {
	l := &liveTLS{files: f}
	if _, err := l.look(); err != nil {
		return nil, err
	}
	return l, nil
}

// look reads the files again if one changed.
func (l *liveTLS) look() (changed bool, err error) {
	var stamps [3]fileStamp
	for i, path := range []string{l.files.cert, l.files.key, l.files.ca} {
		if path == "" {
			continue
		}
		if info, err := os.Stat(path); err == nil {
			stamps[i] = fileStamp{info.Size(), info.ModTime()}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.verdicts != nil && stamps == l.stamps {
		return false, nil
	}
	var certificate *tls.Certificate
	var pool *x509.CertPool
	if l.files.cert != "" || l.files.key != "" {
		read, err := l.files.certificate()
		if err != nil {
			return false, err
		}
		if read.Leaf == nil {
			if read.Leaf, err = x509.ParseCertificate(read.Certificate[0]); err != nil {
				return false, failf("read certificate %s: %w", l.files.cert, err)
			}
		}
		certificate = &read
	}
	if l.files.ca != "" {
		if pool, err = l.files.pool(); err != nil {
			return false, err
		}
	}
	l.certificate, l.pool, l.stamps, l.verdicts, l.warned = certificate, pool, stamps, make(map[[32]byte]error), time.Time{}
	return true, nil
}

func (l *liveTLS) now() (*tls.Certificate, *x509.CertPool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.certificate, l.pool
}

// verify is asked at each handshake, and again while a connection is open: whether
// an authority that counts now stands behind the peer's certificate. Dates and names
// are the handshake's and the connection's.
func (l *liveTLS) verify(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pool == nil {
		return nil // the system's authorities, which the handshake asked
	}
	leaf := state.PeerCertificates[0]
	key := sha256.Sum256(leaf.Raw)
	if err, known := l.verdicts[key]; known {
		return err
	}
	between := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: l.pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		err = fmt.Errorf("no authority of %s stands behind the certificate of %q: %w", l.files.ca, leaf.Subject.CommonName, err)
	}
	if len(l.verdicts) >= verdictsMost {
		clear(l.verdicts)
	}
	l.verdicts[key] = err
	return err
}

// server is the node's side for clients: it shows its certificate and checks one
// that is shown to it.
func (l *liveTLS) server() *tls.Config { return l.accepting(tls.VerifyClientCertIfGiven) }

// mutual is the node's side towards other nodes: both ends show a certificate. The
// authorities that a node accepts when it dials are those that it started with.
func (l *liveTLS) mutual() *tls.Config { return l.accepting(tls.RequireAndVerifyClientCert) }

func (l *liveTLS) accepting(auth tls.ClientAuthType) *tls.Config {
	certificate, pool := l.now()
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*certificate}, RootCAs: pool, ClientCAs: pool,
		ClientAuth: auth, VerifyConnection: l.verify, GetClientCertificate: l.show,
	}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		certificate, pool := l.now()
		return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*certificate}, ClientCAs: pool,
			ClientAuth: auth, VerifyConnection: l.verify}, nil
	}
	return config
}

// show returns the certificate of now to who asks for one.
func (l *liveTLS) show(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if certificate, _ := l.now(); certificate != nil {
		return certificate, nil
	}
	return &tls.Certificate{}, nil
}

// follow looks at the files until ctx ends, at once on SIGHUP, and tells of what it
// finds.
func (l *liveTLS) follow(ctx context.Context, log *slog.Logger) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	tick := time.NewTicker(tlsLookEvery)
	defer tick.Stop()
	for {
		l.tell(log, time.Now())
		select {
		case <-tick.C:
		case <-hangup:
		case <-ctx.Done():
			return
		}
	}
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
