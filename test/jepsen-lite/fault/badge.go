package fault

import (
	"os"
	"strings"
	"sync"

	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// Badge is the token that a user presents, which may be replaced meanwhile. Where the cluster is open it is nil.
type Badge struct {
	Holder string
	roles  []string
	// path is a file that always contains it, for users in another process.
	path string

	mu   sync.Mutex
	text string
	// busy means that a nemesis is using it; stale that its current token is revoked.
	busy, stale bool
}

// put replaces its token from now on.
func (b *Badge) put(token string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := os.WriteFile(b.path+".new", []byte(token), 0o600); err != nil {
		return err
	}
	b.text, b.stale = token, false
	return os.Rename(b.path+".new", b.path)
}

func (b *Badge) token() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text, nil
}

// ID returns the id of its current token; empty where the cluster is open.
func (b *Badge) ID() string {
	if b == nil {
		return ""
	}
	text, _ := b.token()
	return tokenID(text)
}

// tokenID returns the id of rota_ID_SECRET.
func tokenID(token string) string {
	parts := strings.Split(token, "_")
	return parts[min(1, len(parts)-1)]
}

// Done records the end of a call that began under a token of the badge. A call that presented several tokens belongs to
// none. One that is refused for its token may have been accepted before: the library retries by itself. Only if nothing
// of it can have gone out before its token's revocation was acknowledged is the refusal its outcome.
func (b *Badge) Done(rec *check.Recorder, op check.Op, err error) check.Op {
	op = op.Done(rec, err)
	if b == nil {
		return op
	}
	if b.ID() != op.Shown {
		op.Shown = ""
	}
	return op.Doubted(rec)
}

// Entrance holds the files with which a separate process enters the cluster: with the authority and with the token. It
// is zero where the cluster is open.
type Entrance struct {
	Authority string `json:"authority,omitempty"`
	Token     string `json:"token,omitempty"`
}

// Entrance returns the entrance for the user of a badge.
func (k *Cluster) Entrance(b *Badge) Entrance {
	if b == nil {
		return Entrance{}
	}
	return Entrance{k.lock.path("ca.pem"), b.path}
}

// Options returns the options of its client.
func (e Entrance) Options() ([]client.Option, error) {
	if e.Token == "" {
		return []client.Option{client.WithInsecure()}, nil
	}
	config, err := trusting(e.Authority)
	return []client.Option{client.WithTLS(config), client.WithTokenFrom(e.read)}, err
}

func (e Entrance) read() (string, error) {
	text, err := os.ReadFile(e.Token)
	return string(text), err
}

// Shown returns the id of its current token.
func (e Entrance) Shown() string {
	if e.Token == "" {
		return ""
	}
	text, _ := e.read()
	return tokenID(text)
}
