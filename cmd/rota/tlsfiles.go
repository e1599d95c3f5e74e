package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"github.com/rotasched/rota/internal/secret"
)

// tlsFiles name the files of --tls-cert, --tls-key and --tls-ca, or of a server's
// --node-ca. A server needs all three; a client the certificate only where it has one.
type tlsFiles struct {
	cert, key, ca string
}

// complete reports whether a server has what it needs.
func (f tlsFiles) complete() bool { return f.cert != "" && f.key != "" && f.ca != "" }

// client is the client's side: the node must have a certificate of the
// authority, of the system's ones where no --tls-ca is given. Authority and certificate are
// read at each connection: a worker outlives many.
func (f tlsFiles) client() (func() (*tls.Config, error), error) {
	l, err := f.live(nil)
	if err != nil {
		return nil, err
	}
	return func() (*tls.Config, error) {
		_, _ = l.look() // what cannot be read leaves the one before
		config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: l.authorities()}
		if l.current() != nil {
			config.GetClientCertificate = l.show
		}
		return config, nil
	}, nil
}

// certificate reads certificate and key, with the leaf.
func (f tlsFiles) certificate() (*tls.Certificate, error) {
	if f.cert == "" || f.key == "" {
		return nil, usagef("--tls-cert and --tls-key go together")
	}
	var certificate tls.Certificate
	cert, err := readSmall(f.cert, maxKeyFile)
	if err == nil {
		var key []byte
		if key, err = secret.ReadFile(f.key, maxKeyFile); err == nil {
			certificate, err = tls.X509KeyPair(cert, key)
		}
	}
	if err == nil && certificate.Leaf == nil {
		certificate.Leaf, err = x509.ParseCertificate(certificate.Certificate[0])
	}
	if err != nil {
		return nil, failf("read certificate %s and key %s: %w", f.cert, f.key, err)
	}
	return &certificate, nil
}

// readPool reads the authorities in a file; none is no pool.
func readPool(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, failf("read authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, failf("read authorities: %s has no certificate in PEM", path)
	}
	return pool, nil
}

// faults returns what is wrong with each file of a server by itself, and with that of its
// clients' authorities.
func (f tlsFiles) faults(clientCA string) (faults startFaults) {
	if _, err := f.certificate(); err != nil {
		faults = append(faults, err)
	}
	for _, path := range []string{f.ca, clientCA} {
		if _, err := readPool(path); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}
