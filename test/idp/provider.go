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
	_ "crypto/sha512" // for crypto.SHA384 and crypto.SHA512
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
	curves  map[string]*ecdsa.PrivateKey
	ed      ed25519.PrivateKey
	asked   atomic.Int64
	answers sync.Map // of http.HandlerFunc, by path
}

// The paths of a provider.
const (
	ConfigurationPath = "/.well-known/openid-configuration"
	KeysPath          = "/keys"
)

// New starts a provider with keys for all algorithms of RSA (RS and PS), ECDSA (ES) and EdDSA.
func New() *Provider {
	p := &Provider{
		rsa:   must(rsa.GenerateKey(rand.Reader, 2048)),
		Curve: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)),
		ed:    must(edKey()),
	}
	p.curves = map[string]*ecdsa.PrivateKey{"ES256": p.Curve,
		"ES384": must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader)),
		"ES512": must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))}
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
	keys := []map[string]string{
		{"kty": "RSA", "kid": "rsa", "use": "sig", "n": encode(p.rsa.N.Bytes()),
			"e": encode(big.NewInt(int64(p.rsa.E)).Bytes())},
		{"kty": "OKP", "kid": "ed", "use": "sig", "crv": "Ed25519", "x": encode(p.ed.Public().(ed25519.PublicKey))},
	}
	for alg, key := range p.curves {
		point := must(key.PublicKey.Bytes())[1:]
		keys = append(keys, map[string]string{"kty": "EC", "kid": kids[alg], "use": "sig",
			"crv": key.Curve.Params().Name, "x": encode(point[:len(point)/2]), "y": encode(point[len(point)/2:])})
	}
	return keys
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// kids are the keys that each algorithm signs with. HS256 uses a publicly known secret.
var kids = map[string]string{"RS256": "rsa", "RS384": "rsa", "RS512": "rsa", "PS256": "rsa", "PS384": "rsa",
	"PS512": "rsa", "HS256": "rsa", "ES256": "ec", "ES384": "ec384", "ES512": "ec521", "EdDSA": "ed"}

// hashes are the hash functions by the last digits of an algorithm.
var hashes = map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}

// Sign returns a token with these claims, signed by an algorithm; none signs nothing.
func (p *Provider) Sign(alg string, claims map[string]any) string {
	return p.SignAs(alg, kids[alg], claims)
}

// SignAs is Sign with the name of another key in the token's head.
func (p *Provider) SignAs(alg, kid string, claims map[string]any) string {
	head := must(json.Marshal(map[string]string{"alg": alg, "typ": "JWT", "kid": kid}))
	text := encode(head) + "." + encode(must(json.Marshal(claims)))
	hash := hashes[alg[max(0, len(alg)-3):]]
	var sum []byte
	if hash != 0 {
		h := hash.New()
		h.Write([]byte(text))
		sum = h.Sum(nil)
	}
	var signature []byte
	switch alg {
	case "RS256", "RS384", "RS512":
		signature = must(rsa.SignPKCS1v15(rand.Reader, p.rsa, hash, sum))
	case "PS256", "PS384", "PS512":
		signature = must(rsa.SignPSS(rand.Reader, p.rsa, hash, sum, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}))
	case "ES256", "ES384", "ES512":
		key := p.curves[alg]
		size := (key.Curve.Params().BitSize + 7) / 8
		r, s, err := ecdsa.Sign(rand.Reader, key, sum)
		signature = append(must(r, err).FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...)
	case "EdDSA":
		signature = ed25519.Sign(p.ed, []byte(text))
	case "HS256":
		mac := hmac.New(sha256.New, p.rsa.N.Bytes())
		mac.Write([]byte(text))
		signature = mac.Sum(nil)
	}
	return text + "." + encode(signature)
}
