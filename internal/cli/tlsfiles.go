package cli

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"github.com/rotasched/rota/internal/secret"
)

// TLSFiles name the files of --tls-cert, --tls-key and --tls-ca, or of a server's
// --node-ca. A server needs all three; a client the certificate only where it has one.
type TLSFiles struct {
	Cert, Key, CA string
}

// Complete reports whether a server has what it needs.
func (f TLSFiles) Complete() bool { return f.Cert != "" && f.Key != "" && f.CA != "" }

// Client is the client's side: the node must have a certificate of the
// authority, of the system's ones where no --tls-ca is given. Authority and certificate are
// read at each connection: a worker outlives many.
func (f TLSFiles) Client() (func() (*tls.Config, error), error) {
	l, err := f.Live(nil)
	if err != nil {
		return nil, err
	}
	return func() (*tls.Config, error) {
		_, _ = l.Look() // what cannot be read leaves the one before
		config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: l.authorities()}
		if l.Current() != nil {
			config.GetClientCertificate = l.show
		}
		return config, nil
	}, nil
}

// Certificate reads certificate and key, with the leaf.
func (f TLSFiles) Certificate() (*tls.Certificate, error) {
	if f.Cert == "" || f.Key == "" {
		return nil, Usagef("--tls-cert and --tls-key go together")
	}
	var certificate tls.Certificate
	cert, err := ReadSmall(f.Cert, MaxKeyFile)
	if err == nil {
		var key []byte
		if key, err = secret.ReadFile(f.Key, MaxKeyFile); err == nil {
			certificate, err = tls.X509KeyPair(cert, key)
		}
	}
	if err == nil && certificate.Leaf == nil {
		certificate.Leaf, err = x509.ParseCertificate(certificate.Certificate[0])
	}
	if err != nil {
		return nil, Failf("read certificate %s and key %s: %w", f.Cert, f.Key, err)
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
		return nil, Failf("read authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, Failf("read authorities: %s has no certificate in PEM", path)
	}
	return pool, nil
}

// Faults returns what is wrong with each file of a server by itself, and with that of its
// clients' authorities.
func (f TLSFiles) Faults(clientCA string) (faults StartFaults) {
	if _, err := f.Certificate(); err != nil {
		faults = append(faults, err)
	}
	for _, path := range []string{f.CA, clientCA} {
		if _, err := readPool(path); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}
