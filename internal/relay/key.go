package relay

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/secret"
)

// Key is a relay's key: the secrets of all webhooks are derived from it, so that the cluster holds none.
type Key []byte

// minKey and maxKey bound the bytes of a key.
const (
	minKey = 32
	maxKey = 4096
)

// ReadKey reads a key file, which must not be readable by other accounts.
func ReadKey(path string) (Key, error) {
	b, err := secret.ReadFile(path, maxKey)
	if err != nil {
		return nil, err
	}
	if b = bytes.TrimSpace(b); len(b) < minKey {
		return nil, fmt.Errorf("%s: got a key of %d bytes, want %d to %d; make one with `openssl rand -hex 32`", path,
			len(b), minKey, maxKey)
	}
	return Key(b), nil
}

// Secret is shared by a relay and the receiver of one webhook.
type Secret []byte

// Text returns the secret in the format of Standard Webhooks.
func (s Secret) Text() string { return "whsec_" + base64.StdEncoding.EncodeToString(s) }

// Secrets returns the secrets that sign a webhook's deliveries at a moment, the newest first: for a day after a
// rotation the previous one too.
func (k Key) Secrets(w *rota.Webhook, now time.Time) []Secret {
	secrets := []Secret{k.secret(w, w.Generation)}
	if w.Generation > 1 && now.Before(w.Rotated.Time().Add(limits.SecretOverlap)) {
		secrets = append(secrets, k.secret(w, w.Generation-1))
	}
	return secrets
}

// secret returns the secret of a generation. It includes the event of the hook's creation: an earlier owner of the same
// name does not know the secret.
func (k Key) secret(w *rota.Webhook, generation uint64) Secret {
	mac := hmac.New(sha256.New, k)
	for _, s := range []string{"rota|webhook", string(w.Name), w.Began.String()} {
		_ = binary.Write(mac, binary.BigEndian, uint32(len(s)))
		mac.Write([]byte(s))
	}
	_ = binary.Write(mac, binary.BigEndian, generation)
	return mac.Sum(nil)
}

// Signature returns the header webhook-signature of a message: one v1 signature for each secret.
func Signature(secrets []Secret, id, timestamp string, body []byte) string {
	var b []byte
	for _, s := range secrets {
		mac := hmac.New(sha256.New, s)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		if len(b) > 0 {
			b = append(b, ' ')
		}
		b = append(b, "v1,"...)
		b = base64.StdEncoding.AppendEncode(b, mac.Sum(nil))
	}
	return string(b)
}
