package idp

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
)

// Provider is an identity provider with a certificate of its own authority.
type Provider struct {
	// URL is its address and the issuer of its tokens, CA the certificate of its authority.
	URL, CA string
	// Curve is the key of ES256.
	Curve *ecdsa.PrivateKey

	server  *httptest.Server
	rsa     *rsa.PrivateKey
	ed      ed25519.PrivateKey
	asked   atomic.Int64
	answers sync.Map // of http.HandlerFunc, by path
}

// The paths of a provider.
const (
	ConfigurationPath = "/.well-known/openid-configuration"
	KeysPath          = "/keys"
)

// New starts a provider with a key for each of RS256, ES256 and EdDSA.
func New() *Provider {
	p := &Provider{
		rsa:   must(rsa.GenerateKey(rand.Reader, 2048)),
		Curve: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)),
		ed:    must(edKey()),
	}
	mux := http.NewServeMux()
	mux.HandleFunc(ConfigurationPath, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"id_token_signing_alg_values_supported":["RS256","HS256","none"]}`,
			p.URL, p.URL+KeysPath)
	})
	mux.HandleFunc(KeysPath, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": p.Keys()})
	})
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		if f, ok := p.answers.Load(r.URL.Path); ok {
			f.(http.HandlerFunc)(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused certificates
	p.server.StartTLS()
	p.URL = p.server.URL
	p.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw}))
	return p
}

func edKey() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return key, err
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Close ends the provider.
func (p *Provider) Close() {
	p.server.CloseClientConnections() // an unanswered connection would block it
	p.server.Close()
}

// Asked returns how many requests were received.
func (p *Provider) Asked() int64 { return p.asked.Load() }

// Answer replaces the handler of a path.
func (p *Provider) Answer(path string, f http.HandlerFunc) { p.answers.Store(path, f) }

// Restore undoes all calls of Answer.
func (p *Provider) Restore() { p.answers.Clear() }

// Keys returns the public keys, in the form of a key set.
func (p *Provider) Keys() []map[string]string {
	point := must(p.Curve.PublicKey.Bytes())
	return []map[string]string{
		{"kty": "RSA", "kid": "rsa", "use": "sig", "n": encode(p.rsa.N.Bytes()),
			"e": encode(big.NewInt(int64(p.rsa.E)).Bytes())},
		{"kty": "EC", "kid": "ec", "use": "sig", "crv": "P-256", "x": encode(point[1:33]), "y": encode(point[33:])},
		{"kty": "OKP", "kid": "ed", "use": "sig", "crv": "Ed25519", "x": encode(p.ed.Public().(ed25519.PublicKey))},
	}
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// kids are the keys that each algorithm signs with. HS256 uses a publicly known secret.
var kids = map[string]string{"RS256": "rsa", "PS256": "rsa", "HS256": "rsa", "ES256": "ec", "EdDSA": "ed"}

// Sign returns a token with these claims, signed by an algorithm; none signs nothing.
func (p *Provider) Sign(alg string, claims map[string]any) string {
	return p.SignAs(alg, kids[alg], claims)
}

// SignAs is Sign with the name of another key in the token's head.
func (p *Provider) SignAs(alg, kid string, claims map[string]any) string {
	head := must(json.Marshal(map[string]string{"alg": alg, "typ": "JWT", "kid": kid}))
	text := encode(head) + "." + encode(must(json.Marshal(claims)))
	sum := sha256.Sum256([]byte(text))
	var signature []byte
	switch alg {
	case "RS256":
		signature = must(rsa.SignPKCS1v15(rand.Reader, p.rsa, crypto.SHA256, sum[:]))
	case "PS256":
		signature = must(rsa.SignPSS(rand.Reader, p.rsa, crypto.SHA256, sum[:], nil))
	case "ES256":
		r, s, err := ecdsa.Sign(rand.Reader, p.Curve, sum[:])
		signature = append(must(r, err).FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	case "EdDSA":
		signature = ed25519.Sign(p.ed, []byte(text))
	case "HS256":
		mac := hmac.New(sha256.New, p.rsa.N.Bytes())
		mac.Write([]byte(text))
		signature = mac.Sum(nil)
	}
	return text + "." + encode(signature)
}
