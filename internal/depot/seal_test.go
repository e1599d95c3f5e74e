package depot

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/rotasched/rota"
)

func identity(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func identities(t *testing.T, of *age.X25519Identity) Identities {
	t.Helper()
	list, err := ParseIdentities([]byte("# made for a test\n" + of.String() + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A thief cannot read a sealed backup; the owner of its identity reads it completely, and detects damage.
func TestSeal(t *testing.T) {
	secret := "rota-" + strings.Repeat("payloads and secrets ", 10_000)
	places(t, func(t *testing.T, p place) {
		key, other := identity(t), identity(t)
		p.options.Recipients = []string{key.Recipient().String(), identity(t).Recipient().String()}
		d := p.open(t)
		b, err := d.Put(t.Context(), "n1", writing(secret), named("c-1"))
		if err != nil || !b.Sealed || !strings.HasSuffix(b.File, ".snap.age") {
			t.Fatalf("%+v, %v", b, err)
		}
		stolen := p.get(b.Name.String())
		if bytes.Contains(stolen, []byte("payloads")) || bytes.Contains(stolen, []byte("rota-")) {
			t.Error("the sealed backup is readable without the key")
		}
		unseal := func(stolen []byte, with Identities) (string, error) {
			r, err := Unseal(bytes.NewReader(stolen), with)
			if err != nil {
				return "", err
			}
			text, err := io.ReadAll(r)
			return string(text), err
		}
		if got, err := unseal(stolen, identities(t, key)); err != nil || got != secret {
			t.Errorf("the owner's key reads %d bytes, %v", len(got), err)
		}
		flipped := bytes.Clone(stolen)
		flipped[len(flipped)-9] ^= 1
		for what, of := range map[string]struct {
			stolen []byte
			with   Identities
		}{"no identity": {stolen, nil}, "another's": {stolen, identities(t, other)},
			"truncated":      {stolen[:len(stolen)/2], identities(t, key)},
			"cut at a block": {stolen[:len(stolen)-len(secret)%(64<<10)-16], identities(t, key)},
			"flipped":        {flipped, identities(t, key)},
			"its beginning":  {stolen[:30], identities(t, key)}} {
			if got, err := unseal(of.stolen, of.with); rota.KindOf(err) != rota.KindInvalid || got == secret {
				t.Errorf("%s: %d bytes, %v", what, len(got), err)
			}
		}
		if got, err := unseal([]byte("plain"), nil); err != nil || got != "plain" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// With an identity on a node, a thief of the node could read all backups.
func TestSeal_refusesKeys(t *testing.T) {
	t.Parallel()
	key := identity(t)
	_, err := parseRecipients([]string{key.String()})
	if rota.KindOf(err) != rota.KindInvalid || strings.Contains(err.Error(), key.String()[:30]) {
		t.Errorf("%v", err)
	}
	for _, text := range []string{"", "nonsense", key.Recipient().String(), key.String()[:40]} {
		if _, err := ParseIdentities([]byte(text)); rota.KindOf(err) != rota.KindInvalid ||
			strings.Contains(err.Error(), key.String()[:30]) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
