package gossip

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/secret"
)

// keyFileMax bounds the key file.
const keyFileMax = 4 << 10

// readKey reads the key that encrypts and signs gossip: 16, 24 or 32
// bytes, as hex, as base64, or raw. Text comes first: 32 hex digits are a key of
// 16 bytes, not one of 32.
func readKey(path string) ([]byte, error) {
	data, err := secret.ReadFile(path, keyFileMax)
	if err != nil {
		return nil, fmt.Errorf("read gossip key file: %w", err)
	}
	text := bytes.TrimSpace(data)
	if key, err := hex.DecodeString(string(text)); err == nil && keyLength(key) {
		return key, nil
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding,
		base64.URLEncoding, base64.RawURLEncoding} {
		if key, err := encoding.DecodeString(string(text)); err == nil && keyLength(key) {
			return key, nil
		}
	}
	if keyLength(data) {
		return data, nil
	}
	return nil, rota.Refusef(rota.KindInvalid, "gossip-key-file", "gossip key file %s holds %d bytes that are no "+
		"key: 16, 24 or 32 bytes are wanted, raw, in hex or in base64. Make one with: openssl rand -base64 32 > %s",
		path, len(data), path)
}

func keyLength(key []byte) bool { return len(key) == 16 || len(key) == 24 || len(key) == 32 }
