package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
)

// tlsFiles name the files of --tls-cert, --tls-key and --tls-ca. A server needs
// all three; a client the certificate only where the nodes ask for one.
type tlsFiles struct {
	cert, key, ca string
}

// complete reports whether a server has what it needs.
func (f tlsFiles) complete() bool { return f.cert != "" && f.key != "" && f.ca != "" }

// client is the client's side: the node must have a certificate of the
// authority, of the system's ones where no --tls-ca is given. Its own certificate is
// read at each connection: a worker outlives many.
func (f tlsFiles) client() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	var err error
	if f.ca != "" {
		if config.RootCAs, err = f.pool(); err != nil {
			return nil, err
		}
	}
	if f.cert == "" && f.key == "" {
		return config, nil
	}
	l, err := tlsFiles{cert: f.cert, key: f.key}.live()
	if err != nil {
		return nil, err
	}
	config.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		_, _ = l.look() // what cannot be read leaves the one before
		return l.show(asked)
	}
	return config, nil
}

func (f tlsFiles) certificate() (tls.Certificate, error) {
	if f.cert == "" || f.key == "" {
		return tls.Certificate{}, usagef("--tls-cert and --tls-key go together")
	}
	certificate, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return tls.Certificate{}, failf("read certificate %s and key %s: %w", f.cert, f.key, err)
	}
	return certificate, nil
}

func (f tlsFiles) pool() (*x509.CertPool, error) {
	text, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, failf("read --tls-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, failf("read --tls-ca: %s has no certificate in PEM", f.ca)
	}
	return pool, nil
}
