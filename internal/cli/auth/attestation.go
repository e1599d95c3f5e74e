package auth

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/jsonparts"
)

// PublicKeyMark stands above a public key that worker attest --generate-key prints.
const PublicKeyMark = "# public key, for rota server --attestation-key"

// ParseSigningKey reads an Ed25519 private key: PEM (PKCS #8), or its seed of 32
// bytes in hex.
func ParseSigningKey(text []byte) (ed25519.PrivateKey, error) {
	if bytes.HasPrefix(text, []byte(PublicKeyMark)) {
		return nil, errors.New("it is the public key: use the private key")
	}
	block, _ := pem.Decode(text)
	if block == nil {
		seed, err := hex.DecodeString(string(bytes.TrimSpace(text)))
		if err != nil || len(seed) != ed25519.SeedSize {
			return nil, errors.New("it is neither PEM nor a seed of 64 hex digits")
		}
		return ed25519.NewKeyFromSeed(seed), nil
	}
	if block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("its PEM holds a %s: use a PRIVATE KEY", cli.Clean(block.Type))
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("its PEM holds no PKCS #8 key: %w", err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("it is a key of another kind (%T): use an Ed25519 key", parsed)
	}
	return key, nil
}

// ParsePublicKeys reads Ed25519 public keys: PEM blocks (PKIX), or lines of 64 hex
// digits each; blank lines and those that begin with # say nothing.
func ParsePublicKeys(text []byte) (keys []ed25519.PublicKey, err error) {
	if bytes.Contains(text, []byte("-----BEGIN")) {
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			if block.Type != "PUBLIC KEY" {
				return nil, fmt.Errorf("its PEM holds a %s: use PUBLIC KEYs", cli.Clean(block.Type))
			}
			parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("its PEM holds no PKIX key: %w", err)
			}
			key, ok := parsed.(ed25519.PublicKey)
			if !ok {
				return nil, fmt.Errorf("it has a key of another kind (%T): use Ed25519 keys", parsed)
			}
			keys = append(keys, key)
		}
	} else {
		for i, line := range strings.Split(string(text), "\n") {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			key, err := hex.DecodeString(line)
			if err != nil || len(key) != ed25519.PublicKeySize {
				return nil, fmt.Errorf("line %d is not a public key: use 64 hex digits", i+1)
			}
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("it holds no public key")
	}
	return keys, nil
}

// ReadAttestation reads what `worker attest` printed.
func ReadAttestation(path string) (*rota.Attestation, error) {
	text, err := cli.ReadSmall(path, cli.MaxKeyFile)
	if err != nil {
		return nil, cli.Usagef("read --attestation: %w", err)
	}
	var a rota.Attestation
	switch err := jsonparts.Read(text, &a, true); {
	case errors.Is(err, jsonparts.ErrMore):
		return nil, cli.Usagef("--attestation %s holds more than an attestation", path)
	case err != nil:
		return nil, cli.Usagef("--attestation %s holds no attestation: %w", path, err)
	}
	return &a, nil
}

// NewSigningKey writes a new private key, for its owner alone to read, and gives
// the public one. A file that is there is never written over: it may be the only
// copy of a key in use.
func NewSigningKey(path string) (ed25519.PublicKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	err = pem.Encode(file, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err == nil {
		err = file.Sync()
	}
	return public, errors.Join(err, file.Close())
}

// LiveAttestationKeys are what the files of --attestation-key hold now. Files that cannot be
// read leave what there was.
type LiveAttestationKeys struct {
	Files []string

	mu     sync.Mutex
	stamps []cli.FileStamp
	keys   []ed25519.PublicKey
	failed string
}

// Now returns the keys that count.
func (l *LiveAttestationKeys) Now() []ed25519.PublicKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keys
}

// Look reads the files again if one changed.
func (l *LiveAttestationKeys) Look() (changed bool, err error) {
	stamps := make([]cli.FileStamp, len(l.Files))
	for i, path := range l.Files {
		stamps[i] = cli.StampOf(path)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Equal(stamps, l.stamps) {
		return false, nil
	}
	var keys []ed25519.PublicKey
	for _, path := range l.Files {
		text, err := cli.ReadSmall(path, cli.MaxKeyFile)
		if err != nil {
			return false, fmt.Errorf("read --attestation-key: %w", err)
		}
		more, err := ParsePublicKeys(text)
		if err != nil {
			return false, fmt.Errorf("--attestation-key %s: %w", path, err)
		}
		keys = append(keys, more...)
	}
	l.keys, l.stamps = keys, stamps
	return true, nil
}

// Tell looks again and logs a change, and a fault that is new.
func (l *LiveAttestationKeys) Tell(log *slog.Logger) {
	changed, err := l.Look()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.failed = ""
	case err.Error() != l.failed:
		l.failed = err.Error()
		log.Error("cannot read the changed attestation keys: the previous keys stay in use", "error", err)
	}
	if changed {
		log.Info("attestation keys were read again", "keys", len(l.keys))
	}
}
