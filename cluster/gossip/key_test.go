package gossip

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// testKey returns a key in the file's format.
func testKey(seed byte) string { return hex.EncodeToString(bytes.Repeat([]byte{seed}, 32)) }

func writeKeys(t *testing.T, path string, keys ...string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(keys, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestGossipKeys_rotate: a key is replaced in three steps, and nodes reach each other after each of them; the removed
// key no longer opens anything.
func TestGossipKeys_rotate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := [2]string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	before, after := testKey(1), testKey(2)
	for _, file := range files {
		writeKeys(t, file, before)
	}
	a := startGossip(t, "a", func(o *Options) { o.KeyFile = files[0] })
	b := startGossip(t, "b", func(o *Options) { o.KeyFile, o.Join = files[1], []string{a.Addr()} })
	nodes := [2]*Gossip{a, b}
	said := 0
	heard := func(step string) {
		t.Helper()
		for i, from := range nodes {
			said++
			version := fmt.Sprint("version ", said)
			if err := from.UpdateMeta(func(m *Meta) { m.Version = version }); err != nil {
				t.Fatal(err)
			}
			awaitMember(t, nodes[1-i], from.opts.ID, step, func(m Member) bool {
				return m.Alive && m.Version == version
			})
		}
	}
	heard("at first")
	for _, step := range [][]string{{before, after}, {after, before}, {after}} {
		for i, file := range files { // one node is ahead of the other
			writeKeys(t, file, step...)
			nodes[i].keys.follow()
			heard(fmt.Sprint("node ", i, " has ", len(step), " keys"))
		}
	}
	sealed := sealedBy(t, before)
	for _, g := range nodes {
		if _, err := g.keys.open(sealed[:nonceBytes], sealed[nonceBytes:], nil); err == nil {
			t.Error("the old key opens data that it sealed")
		}
	}
	sealed = sealedBy(t, after)
	if _, err := a.keys.open(sealed[:nonceBytes], sealed[nonceBytes:], nil); err != nil {
		t.Error(err)
	}

	if err := os.WriteFile(files[0], []byte("half a ke"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.keys.follow()
	heard("a file that cannot be read leaves the keys")
}

// sealedBy returns data sealed by a key, after its nonce.
func sealedBy(t *testing.T, key string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	writeKeys(t, path, key)
	k, err := readKeys(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	nonce := make([]byte, nonceBytes)
	return (*k.seals.Load())[0].Seal(nonce, nonce, []byte("a message"), nil)
}

// awaitMember waits until a node's view of another satisfies want.
func awaitMember(t *testing.T, g *Gossip, id rota.NodeID, what string, want func(Member) bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		for _, m := range g.Members() {
			if m.ID == id && want(m) {
				return
			}
		}
		select {
		case <-g.Changed():
		case <-deadline:
			t.Fatalf("%s: %s cannot be heard: %+v", what, id, g.Members())
		}
	}
}

// TestGossipKeys: a file may have several keys, one per line, and nothing that is not a key.
func TestGossipKeys(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		keys int
		want string
	}{
		"two":        {testKey(1) + "\n" + testKey(2) + "\n", 2, ""},
		"blank line": {"\n" + testKey(1) + "\r\n\n" + testKey(2), 2, ""},
		"the same":   {testKey(1) + "\n" + testKey(1) + "\n", 1, ""},
		"no key":     {testKey(1) + "\nnone\n", 0, "line 2"},
		"nothing":    {"\n", 0, "got 0 keys"},
		"too many":   {strings.Join(manyKeys(maxKeys+1), "\n"), 0, "1 to 8"},
	} {
		keys, err := parseKeys("file", []byte(c.text))
		if len(keys) != c.keys || (err == nil) != (c.want == "") || err != nil &&
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d keys, %v", name, len(keys), err)
		}
	}
}

func manyKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = testKey(byte(i))
	}
	return keys
}
