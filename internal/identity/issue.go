package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"

	"github.com/rotasched/rota"
)

// Authority issues certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// backdated is how far in the past a certificate begins, because clocks differ.
const backdated = 5 * time.Minute

// NewAuthority creates an authority with a key of its own.
func NewAuthority(name string, now time.Time, life time.Duration) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name}, IsCA: true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true, NotBefore: now.Add(-backdated), NotAfter: now.Add(life),
		KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read authority: %w", err)
	}
	return &Authority{cert, key}, nil
}

// ReadAuthority parses the result of PEM.
func ReadAuthority(cert, key []byte) (*Authority, error) {
	block, _ := pem.Decode(cert)
	secret, _ := pem.Decode(key)
	if block == nil || secret == nil {
		return nil, errors.New("read authority: use a certificate and a key in PEM")
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read authority's certificate: %w", err)
	}
	private, err := x509.ParsePKCS8PrivateKey(secret.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read authority's key: %w", err)
	}
	signer, ok := private.(*ecdsa.PrivateKey)
	if !ok || !signer.PublicKey.Equal(parsed.PublicKey) || !parsed.IsCA {
		return nil, errors.New("read authority: the key is not the authority's, or the certificate no authority's")
	}
	return &Authority{parsed, signer}, nil
}

// PEM returns certificate and key.
func (a *Authority) PEM() (cert, key []byte, err error) { return encode(a.cert.Raw, a.key) }

// Pool returns a pool with this authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Request describes a certificate to issue.
type Request struct {
	// URI is the result of NodeURI or ClientURI.
	URI string
	// Hosts holds the names and addresses by which clients reach a node.
	Hosts []string
	// Server means that it is a node's.
	Server bool
	Now    time.Time
	Life   time.Duration
}

// Issue returns a certificate and its key in PEM.
func (a *Authority) Issue(r Request) (cert, key []byte, err error) {
	uri, err := url.Parse(r.URI)
	if err != nil {
		return nil, nil, rota.Refusef(rota.KindInvalid, "uri", "URI %q is refused: %v", r.URI, err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, nil, err
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	end := r.Now.Add(r.Life)
	if end.After(a.cert.NotAfter) {
		end = a.cert.NotAfter
	}
	template := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: uri.Path[1:]},
		URIs: []*url.URL{uri}, NotBefore: r.Now.Add(-backdated), NotAfter: end, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if r.Server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range r.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, own.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate: %w", err)
	}
	return encode(der, own)
}

func encode(der []byte, key *ecdsa.PrivateKey) ([]byte, []byte, error) {
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("write key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), nil
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw serial number: %w", err)
	}
	return serial, nil
}
