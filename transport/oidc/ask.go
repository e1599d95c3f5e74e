package oidc

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/jsonparts"
	"github.com/rotasched/rota/internal/limits"
)

const (
	// maxAnswer bounds an issuer's configuration and its keys, answerTime how long each takes.
	maxAnswer  = 256 << 10
	answerTime = 5 * time.Second
	// answerKept is how long an answer, or its absence, is cached: unsigned tokens cannot cause endless requests.
	answerKept = 5 * time.Second
	// maxKeys bounds an issuer's keys: a token that names no key is tried with each.
	maxKeys = 100
	// maxAddresses bounds the addresses of an issuer whose answers are cached.
	maxAddresses = 8
)

// provider returns the issuer's provider, a new one if the issuer was configured differently since.
func (v *Verifier) provider(issuer *rota.Issuer) (*provider, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p := v.known[issuer.URL]; p != nil && p.ca == issuer.CA {
		return p, nil
	}
	roots, err := Roots(issuer.CA)
	if err != nil {
		return nil, err
	}
	if v.known == nil || len(v.known) >= limits.MaxIssuers {
		v.known = make(map[string]*provider)
	}
	p := &provider{ca: issuer.CA, client: clientOf(roots, v.time)}
	v.known[issuer.URL] = p
	return p, nil
}

// Roots parses the CA certificates for an issuer; it returns nil, meaning the system's, if there are none.
func Roots(pem string) (*x509.CertPool, error) {
	if pem == "" {
		return nil, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(pem)) {
		return nil, rota.Refusef(rota.KindInvalid, "ca", "ca has no certificate: use PEM with BEGIN CERTIFICATE")
	}
	return roots, nil
}

// ask returns the signature verifier of an issuer. It fetches the issuer's configuration if it is unknown or old.
func (p *provider) ask(ctx context.Context, url string, now time.Time) (*gooidc.IDTokenVerifier, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.verifier != nil && now.Sub(p.asked) < discoveredFor {
		return p.verifier, nil
	}
	// Keys are fetched later, within calls that have a context of their own.
	described, err := gooidc.NewProvider(gooidc.ClientContext(context.WithoutCancel(ctx), p.client), url)
	if err != nil {
		return nil, unavailable(url, err)
	}
	// Dates and audience are checked separately, with clearer errors.
	p.verifier = described.Verifier(&gooidc.Config{SupportedSigningAlgs: algorithms, SkipClientIDCheck: true,
		SkipExpiryCheck: true})
	p.asked, p.sound = now, false
	return p.verifier, nil
}

// believe marks a verifier's keys as valid, so that they are kept while the issuer does not answer.
func (p *provider) believe(v *gooidc.IDTokenVerifier) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sound = p.sound || v == p.verifier
}

// doubt has the configuration fetched again if no key that it led to was ever valid.
func (p *provider) doubt(v *gooidc.IDTokenVerifier) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v == p.verifier && !p.sound {
		p.verifier = nil
	}
}

func unavailable(url string, err error) *rota.Error {
	text := err.Error()
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "issuer", RetryAfter: answerKept,
		Text: fmt.Sprintf("issuer %s cannot be asked for its configuration or keys: %s", url, cut(text))}
}

// failure returns the error of the last request to the issuer, or nil.
func (p *provider) failure() error { return p.client.Transport.(*asker).failure() }

// clientOf returns a client that follows no redirects and speaks https only.
func clientOf(roots *x509.CertPool, now func() time.Time) *http.Client {
	base := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		Proxy:           http.ProxyFromEnvironment,
		MaxConnsPerHost: 4, MaxIdleConns: 4, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2: true}
	return &http.Client{Timeout: answerTime, Transport: &asker{base: base, now: now}}
}

var errRedirect = errors.New("it redirects, which is not followed: set the issuer to the final address")

// asker queries an issuer, over https, for bounded answers, each at most once in a while.
type asker struct {
	base http.RoundTripper
	now  func() time.Time

	mu   sync.Mutex
	kept map[string]answer
	last error
}

// answer is the result of a request.
type answer struct {
	at     time.Time
	header http.Header
	body   []byte
	err    error
}

// RoundTrip implements http.RoundTripper.
func (a *asker) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock() // concurrent callers share the answer
	if r.URL.Scheme != "https" {
		a.last = fmt.Errorf("%s is not https", r.URL.Redacted())
		return nil, a.last
	}
	url := r.URL.String()
	got, ok := a.kept[url]
	if !ok || a.now().Sub(got.at) >= answerKept {
		got = a.fetch(r)
		a.keep(url, got)
	}
	if a.last = got.err; got.err != nil {
		return nil, got.err
	}
	return &http.Response{Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: got.header.Clone(), Body: io.NopCloser(bytes.NewReader(got.body)),
		ContentLength: int64(len(got.body)), Request: r}, nil
}

// keep caches an answer from its arrival, and drops old ones.
func (a *asker) keep(url string, got answer) {
	got.at = a.now()
	for other, old := range a.kept {
		if got.at.Sub(old.at) >= answerKept {
			delete(a.kept, other)
		}
	}
	if a.kept == nil || len(a.kept) >= maxAddresses {
		a.kept = make(map[string]answer)
	}
	a.kept[url] = got
}

// fetch fetches a JSON object. Other contents at the address are not quoted to callers.
func (a *asker) fetch(r *http.Request) (got answer) {
	response, err := a.base.RoundTrip(r)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode/100 == 3:
		return answer{err: errRedirect}
	case response.StatusCode != http.StatusOK:
		return answer{err: fmt.Errorf("it answers with %d %s", response.StatusCode,
			http.StatusText(response.StatusCode))}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return answer{err: err}
	case len(body) > maxAnswer:
		return answer{err: fmt.Errorf("its answer has more than %d bytes", maxAnswer)}
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := jsonparts.Read(body, &set, false); err != nil {
		return answer{err: errors.New("its answer is not JSON of a configuration or of keys")}
	}
	if n := len(set.Keys); n > maxKeys {
		return answer{err: fmt.Errorf("too many keys: got %d, maximum %d, as each may be tried", n, maxKeys)}
	}
	return answer{header: response.Header, body: body}
}

func (a *asker) failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}
