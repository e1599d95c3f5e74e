package identity

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// The kinds of holders, as the URI names them.
const (
	nodeKind   = "node"
	clientKind = "client"
)

const scheme = "spiffe://"

// CheckDomain returns an error for a trust domain that no URI can carry; most names of clusters are valid ones.
func CheckDomain(domain string) error {
	if domain != "" && len(domain) <= rota.MaxIDBytes && strings.Trim(domain,
		"abcdefghijklmnopqrstuvwxyz0123456789._-") == "" {
		return nil
	}
	return rota.Refusef(rota.KindInvalid, "trust-domain",
		"trust-domain: got %q; use 1 to %d of the characters a-z 0-9 . _ -. "+
			"If the cluster's name has others, set --trust-domain", cut(domain), rota.MaxIDBytes)
}

// checkPart returns an error for an id that a certificate's URI cannot contain.
func checkPart(what, id string) error {
	if rota.ValidID(id) && !strings.Contains(id, ":") && id != "." && id != ".." {
		return nil
	}
	return rota.Refusef(rota.KindInvalid, what,
		"%s: got %q, which a certificate cannot hold; use 1 to %d of the characters "+
			"A-Z a-z 0-9 . _ -", what, cut(id), rota.MaxIDBytes)
}

// NodeURI returns the URI of a node's certificate.
func NodeURI(domain string, id rota.NodeID) (string, error) {
	if err := CheckDomain(domain); err != nil {
		return "", err
	}
	if err := checkPart("node id", string(id)); err != nil {
		return "", err
	}
	return scheme + domain + "/" + nodeKind + "/" + string(id), nil
}

// ClientURI returns the URI of a client's certificate.
func ClientURI(domain, role, name string) (string, error) {
	if err := CheckDomain(domain); err != nil {
		return "", err
	}
	if err := checkPart("role", role); err != nil {
		return "", err
	}
	if err := checkPart("name", name); err != nil {
		return "", err
	}
	return scheme + domain + "/" + clientKind + "/" + role + "/" + name, nil
}

// Node returns the id of the node whose certificate is first in a chain, if an authority of roots issued it. The error
// names the fault.
func Node(chain []*x509.Certificate, roots *x509.CertPool, domain string) (rota.NodeID, error) {
	parts, err := judge(chain, roots, domain, nodeKind, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return "", err
	}
	if len(parts) != 1 {
		return "", wrongURI(chain[0], domain, nodeKind+"/ID")
	}
	return rota.NodeID(parts[0]), nil
}

// Client returns role and name of the client whose certificate is first in a chain.
func Client(chain []*x509.Certificate, roots *x509.CertPool, domain string) (role, name string, err error) {
	parts, err := judge(chain, roots, domain, clientKind, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return "", "", err
	}
	if len(parts) != 2 {
		return "", "", wrongURI(chain[0], domain, clientKind+"/ROLE/NAME")
	}
	return parts[0], parts[1], nil
}

// judge returns the part after the kind in the URI of a certificate that may be used for all of uses. It checks dates
// too, so a caller that repeats the check notices an expiry.
func judge(chain []*x509.Certificate, roots *x509.CertPool, domain, kind string,
	uses ...x509.ExtKeyUsage) ([]string, error) {
	if len(chain) == 0 {
		return nil, refuse("got no certificate, want one of a %s", kind)
	}
	leaf := chain[0]
	if len(leaf.URIs) != 1 {
		return nil, refuse("the certificate of %s has %d URIs, want exactly one, %s%s/%s/…", subject(leaf),
			len(leaf.URIs), scheme, domain, kind)
	}
	rest, ok := strings.CutPrefix(leaf.URIs[0].String(), scheme+domain+"/"+kind+"/")
	if !ok {
		return nil, wrongURI(leaf, domain, kind+"/…")
	}
	parts := strings.Split(rest, "/")
	for _, part := range parts {
		if err := checkPart(kind, part); err != nil {
			return nil, err
		}
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	for _, use := range uses {
		if !slices.Contains(leaf.ExtKeyUsage, use) {
			return nil, refuse("the certificate of %s lacks the extended key usage %s", subject(leaf), useName(use))
		}
		// A nil pool would mean the system's authorities.
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: some(roots), Intermediates: between,
			KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
			return nil, refuse("no authority of %ss signed the certificate of %s: %w", kind, subject(leaf), err)
		}
	}
	return parts, nil
}

func some(pool *x509.CertPool) *x509.CertPool {
	if pool == nil {
		return x509.NewCertPool()
	}
	return pool
}

func refuse(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &rota.Error{Kind: rota.KindDenied, Subject: "certificate", Text: err.Error()}
}

func wrongURI(leaf *x509.Certificate, domain, wanted string) error {
	return refuse("the certificate of %s has the URI %q, want %s%s/%s", subject(leaf), cut(leaf.URIs[0].String()),
		scheme, domain, wanted)
}

func subject(leaf *x509.Certificate) string { return fmt.Sprintf("%q", cut(leaf.Subject.CommonName)) }

func useName(use x509.ExtKeyUsage) string {
	if use == x509.ExtKeyUsageServerAuth {
		return "serverAuth"
	}
	return "clientAuth"
}

// cut limits the text from a stranger's certificate in a line.
func cut(s string) string {
	if len(s) > 120 {
		return s[:120] + "…"
	}
	return s
}
