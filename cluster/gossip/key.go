package gossip

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"github.com/rotasched/rota"
)

// keyFileMax bounds the key file.
const keyFileMax = 4 << 10

// readKey reads the key that encrypts and signs gossip: 16, 24 or 32
// bytes, as hex, as base64, or raw. Text comes first: 32 hex digits are a key of
// 16 bytes, not one of 32.
func readKey(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("look at gossip key file: %w", err)
	}
	if info.Mode().Perm()&0o007 != 0 {
		return nil, rota.Refusef(rota.KindDenied, "gossip-key-file", "gossip key file %s is open to every user of "+
			"this machine (mode %04o): whoever has the key can join the cluster. Run: chmod 600 %s",
			path, info.Mode().Perm(), path)
	}
	data, err := readSmall(path, keyFileMax)
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

// readSmall reads a whole file of at most most bytes.
func readSmall(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return data, err
}

func keyLength(key []byte) bool { return len(key) == 16 || len(key) == 24 || len(key) == 32 }
