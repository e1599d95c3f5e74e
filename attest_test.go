package rota

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"testing"
)

func attestKeys(seeds ...byte) (private []ed25519.PrivateKey, public []ed25519.PublicKey) {
	for _, s := range seeds {
		k := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{s}, ed25519.SeedSize))
		private, public = append(private, k), append(public, k.Public().(ed25519.PublicKey))
	}
	return private, public
}

func TestAttestation_verify(t *testing.T) {
	t.Parallel()
	private, public := attestKeys(1, 2, 3)
	good, err := Attest(private[1], "c1", "w1", 2_000, 70)
	if err != nil {
		t.Fatal(err)
	}
	if err := good.Verify(public[:2], "c1", "w1", 1_999); err != nil {
		t.Fatalf("a good one: %v", err)
	}
	stranger, err := Attest(private[2], "c1", "w1", 2_000, 70)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change  func(*Attestation)
		cluster ClusterID
		worker  WorkerID
		now     Date
		kind    Kind
		subject string
	}{
		"expired":         {nil, "c1", "w1", 2_000, KindDenied, "attestation.expires_ms"},
		"another cluster": {nil, "c2", "w1", 1, KindDenied, "attestation.cluster_id"},
		"another worker":  {nil, "c1", "w2", 1, KindDenied, "attestation.worker"},
		"an unknown key":  {func(a *Attestation) { *a = stranger }, "c1", "w1", 1, KindDenied, "attestation.key"},
		"a longer life":   {func(a *Attestation) { a.Expires++ }, "c1", "w1", 1, KindDenied, "attestation.signature"},
		"a higher stake": {func(a *Attestation) { a.Stake = 1 << 60 }, "c1", "w1", 1, KindDenied,
			"attestation.signature"},
		"no stake":         {func(a *Attestation) { a.Stake = 0 }, "c1", "w1", 1, KindDenied, "attestation.signature"},
		"a negative stake": {func(a *Attestation) { a.Stake = -1 }, "c1", "w1", 1, KindInvalid, "attestation.stake"},
		"too high a stake": {func(a *Attestation) { a.Stake = MaxFee + 1 }, "c1", "w1", 1, KindInvalid,
			"attestation.stake"},
		"a broken signature": {func(a *Attestation) { a.Signature[9] ^= 1 }, "c1", "w1", 1, KindDenied,
			"attestation.signature"},
		"a known key's name on a stranger's word": {func(a *Attestation) {
			*a = stranger
			a.Key = Hex(public[0])
		}, "c1", "w1", 1, KindDenied, "attestation.signature"},
		"a renamed worker": {func(a *Attestation) { a.Worker = "w2" }, "c1", "w2", 1, KindDenied,
			"attestation.signature"},
		"a short key": {func(a *Attestation) { a.Key = a.Key[1:] }, "c1", "w1", 1, KindInvalid, "attestation.key"},
		"no signature": {func(a *Attestation) { a.Signature = nil }, "c1", "w1", 1, KindInvalid,
			"attestation.signature"},
		"no worker": {func(a *Attestation) { a.Worker = "" }, "c1", "w1", 1, KindInvalid, "attestation.worker"},
		"no cluster": {func(a *Attestation) { a.Cluster = "a b" }, "c1", "w1", 1, KindInvalid,
			"attestation.cluster_id"},
		"no expiry": {func(a *Attestation) { a.Expires = 0 }, "c1", "w1", 1, KindInvalid, "attestation.expires_ms"},
	} {
		a := good
		a.Signature = bytes.Clone(good.Signature)
		if c.change != nil {
			c.change(&a)
		}
		err := a.Verify(public[:2], c.cluster, c.worker, c.now)
		var e *Error
		if !errors.As(err, &e) || e.Kind != c.kind || e.Subject != c.subject {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := good.Verify(nil, "c1", "w1", 1); KindOf(err) != KindDenied {
		t.Errorf("without any key: %v", err)
	}
}

// The signed bytes are a format: attestations outlive the binary that made them.
func TestAttestation_keepsItsFormat(t *testing.T) {
	t.Parallel()
	private, _ := attestKeys(7)
	a, err := Attest(private[0], "c1", "w1", 1_700_000_000_000, 5_000_000)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"cluster_id":"c1","worker":"w1","expires_ms":1700000000000,"expires_at":"2023-11-14T22:13:20.000Z","stake":5000000,` +
		`"key":"ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c",` +
		`"signature":"4e1a257e183e47d548db927324b4ac26fa013b10bc1684f0418cc173b07a7a6c2a17e1291704e23d10a8b967919eccf99a5d66a4d68ea273f932c5bf2081e50d"}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestAttest_refuses(t *testing.T) {
	t.Parallel()
	private, _ := attestKeys(1)
	errOf := func(_ Attestation, err error) error { return err }
	for name, err := range map[string]error{
		"a short key": errOf(Attest(private[0][:32], "c1", "w1", 1, 0)),
		"no cluster":  errOf(Attest(private[0], "", "w1", 1, 0)),
		"no worker":   errOf(Attest(private[0], "c1", "a b", 1, 0)),
		"no expiry":   errOf(Attest(private[0], "c1", "w1", 0, 0)),
		"a far date":  errOf(Attest(private[0], "c1", "w1", 1<<62, 0)),
		"no stake":    errOf(Attest(private[0], "c1", "w1", 1, -1)),
		"a far stake": errOf(Attest(private[0], "c1", "w1", 1, MaxFee+1)),
	} {
		if KindOf(err) != KindInvalid {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
