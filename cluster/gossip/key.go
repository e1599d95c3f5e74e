package gossip

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/memberlist"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/secret"
)

const (
	// keyFileMax bounds the key file in bytes, maxKeys the keys in it: the current one, the one before or after it,
	// and room for a mistake.
	keyFileMax = 4 << 10
	maxKeys    = 8
	// keysEver bounds the keys that a process ever accepts: memberlist keeps them.
	keysEver = 256
)

// keys holds the keys of gossip: the first key in the file seals, each opens. The file is read again while the node
// runs.
type keys struct {
	path string
	log  *slog.Logger
	// ring is memberlist's key ring. Keys are only added: removing one races with its readers. Data sealed by a key
	// that is no longer valid does not pass the gate.
	ring *memberlist.Keyring
	// seals belong to the valid keys.
	seals atomic.Pointer[[]cipher.AEAD]

	mu     sync.Mutex
	read   []byte // the file's last content
	failed string
}

// readKeys reads the key file at the start.
func readKeys(path string, log *slog.Logger) (*keys, error) {
	k := &keys{path: path, log: log, ring: &memberlist.Keyring{}}
	err := k.look()
	return k, err
}

// CheckKeys rejects a key file that a node would not start with.
func CheckKeys(path string) error {
	_, err := readKeys(path, nil)
	return err
}

// look reads the file again and makes its keys valid.
func (k *keys) look() error {
	text, err := secret.ReadFile(k.path, keyFileMax)
	if err != nil {
		return fmt.Errorf("read gossip key file: %w", err)
	}
	if bytes.Equal(text, k.read) {
		return nil
	}
	all, err := parseKeys(k.path, text)
	if err != nil {
		return err
	}
	if len(k.ring.GetKeys())+len(all) > keysEver {
		return rota.Refusef(rota.KindExhausted, "gossip-key-file",
			"gossip key file %s changed too often for one process, which keeps at most "+
				"%d keys: restart the node", k.path, keysEver)
	}
	seals := make([]cipher.AEAD, len(all))
	for i, key := range all {
		block, err := aes.NewCipher(key)
		if err == nil {
			seals[i], err = cipher.NewGCM(block)
		}
		if err == nil {
			err = k.ring.AddKey(key)
		}
		if err != nil {
			return fmt.Errorf("gossip key: %w", err)
		}
	}
	k.seals.Store(&seals)
	k.read = text
	return k.ring.UseKey(all[0])
}

// follow reads the file again, and logs a change or a new fault.
func (k *keys) follow() {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.read
	err := k.look()
	switch {
	case err != nil && err.Error() != k.failed:
		k.failed = err.Error()
		k.log.Error("gossip key file changed and cannot be read: the keys of before still count", "error", err)
	case err == nil:
		k.failed = ""
		if !bytes.Equal(before, k.read) {
			k.log.Info("gossip key file was read again", "keys", len(*k.seals.Load()))
		}
	}
}

// open opens data sealed by any of the keys.
func (k *keys) open(nonce, sealed, known []byte) ([]byte, error) {
	for _, seal := range *k.seals.Load() {
		if plain, err := seal.Open(nil, nonce, sealed, known); err == nil {
			return plain, nil
		}
	}
	return nil, fmt.Errorf("%w: not encrypted with this cluster's key", errGate)
}

// parseKeys reads the keys that encrypt and sign gossip, each of 16, 24 or 32 bytes: one per line, or a single raw one
// of any bytes.
func parseKeys(path string, text []byte) (all [][]byte, err error) {
	if key := decodeKey(bytes.TrimSpace(text)); key != nil {
		return [][]byte{key}, nil
	}
	if keyLength(text) {
		return [][]byte{text}, nil
	}
	for i, line := range bytes.Split(text, []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		key := decodeKey(line)
		switch {
		case key != nil:
		case keyLength(line):
			key = line
		default:
			return nil, rota.Refusef(rota.KindInvalid, "gossip-key-file",
				"gossip key file %s: line %d: got %d bytes, want a key of 16, 24 or 32 bytes, raw, in hex or base64. "+
					"Make one with: openssl rand -base64 32 > %s",
				path, i+1, len(line), path)
		}
		if !slices.ContainsFunc(all, func(k []byte) bool { return bytes.Equal(k, key) }) {
			all = append(all, key)
		}
	}
	if len(all) == 0 || len(all) > maxKeys {
		return nil, rota.Refusef(rota.KindInvalid, "gossip-key-file",
			"gossip key file %s: got %d keys, want 1 to %d, one per line", path, len(all), maxKeys)
	}
	return all, nil
}

// decodeKey reads one key as hex or base64; nil if it is neither. Text takes precedence over raw bytes: 32 hex digits
// are a key of 16 bytes, not one of 32.
func decodeKey(text []byte) []byte {
	if key, err := hex.DecodeString(string(text)); err == nil && keyLength(key) {
		return key
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding,
		base64.URLEncoding, base64.RawURLEncoding} {
		if key, err := encoding.DecodeString(string(text)); err == nil && keyLength(key) {
			return key
		}
	}
	return nil
}

func keyLength(key []byte) bool { return len(key) == 16 || len(key) == 24 || len(key) == 32 }
