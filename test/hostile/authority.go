package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"time"
)

// authority signs certificates, including faulty ones, which `rota tls` does not make.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority returns one; authorities with the same name have different keys.
func newAuthority(name string) (*authority, error) {
	pair, err := sign(nil, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign})
	if err != nil {
		return nil, err
	}
	return &authority{pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)}, nil
}

// pem returns its certificate in the format of files.
func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// fault changes a certificate before it is signed.
type fault func(*x509.Certificate)

// node signs the certificate of a node, client that of a client with a role.
func (a *authority) node(id string, faults ...fault) (tls.Certificate, error) {
	return a.issue("spiffe://rota/node/"+id, append([]fault{func(c *x509.Certificate) {
		c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}}, faults...)...)
}

func (a *authority) client(role, name string, faults ...fault) (tls.Certificate, error) {
	return a.issue("spiffe://rota/client/"+role+"/"+name, faults...)
}

func (a *authority) issue(uri string, faults ...fault) (tls.Certificate, error) {
	parsed, err := url.Parse(uri)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: parsed.Path[1:]}, URIs: []*url.URL{parsed},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, f := range faults {
		f(template)
	}
	return sign(a, template)
}

// sign signs a template; without an authority it signs with its own key.
func sign(by *authority, template *x509.Certificate) (pair tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return pair, err
	}
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(24 * time.Hour)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return pair, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// write writes a pair as the two files that a server reads.
func write(pair tls.Certificate, cert, key string) error {
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	if err := os.WriteFile(cert, text, 0o600); err != nil {
		return err
	}
	return os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

// authorityOf signs with the key of a certificate that is not an authority's.
func authorityOf(pair tls.Certificate) *authority {
	return &authority{pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)}
}
