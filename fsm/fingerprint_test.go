package fsm

import (
	"crypto/sha256"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/peer"
)

// TestFingerprint compares the text with the result of two regular expressions.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	ids, numbers := regexp.MustCompile(`[0-9a-f]{8,}`), regexp.MustCompile(`[0-9]+`)
	ascii := func(s string) string {
		b := []byte(s)
		for i, c := range b {
			if c >= 'A' && c <= 'Z' {
				b[i] = c + 32
			}
		}
		return string(b)
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"deadbeef", "DEADBEE", "f", "7", "timeout after ",
			"É", " 00", "/", "#", "x"})).Draw(rt, "text"), "")
		want := numbers.ReplaceAllString(ids.ReplaceAllString(ascii(text), "#"), "#")
		want = want[:min(len(want), 256)]
		if got := string(state.AppendAlike([]byte("before"), text)); got != "before"+want {
			rt.Fatalf("%q became %q, not %q", text, got, want)
		}
		sum := sha256.Sum256([]byte("mail\x00PROVIDER_FAIL\x00" + want))
		if got := state.Fingerprint("mail", rota.ReasonProviderFail, text); got != string(sum[:8]) {
			rt.Fatalf("%q has the fingerprint %x, not %x", text, got, sum[:8])
		}
	})
}

// TestFingerprint_ofAJob checks that a dead job has the fingerprint of its failure, and any other has none.
func TestFingerprint_ofAJob(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("default", "attempt_max", "1"))
	dead := func(id, text string) string {
		b.ok(verb(rota.VerbFail, b.leased(id, "w"), func(c *peer.LeaseCommand) { c.Text = text }))
		return string(b.state(id, rota.JobDead).Fingerprint)
	}
	first, alike, other := dead("a", "order 17 not found: 0123456789abcdef"), dead("b",
		"Order 4 not found: fedcba9876543210"), dead("c", "refused")
	if len(first) != 8 || first != alike || first == other {
		t.Errorf("%x, %x, %x", first, alike, other)
	}
	b.ok(verb(rota.VerbFail, b.leased("d", "w"), func(c *peer.LeaseCommand) { c.Fail = peer.FailCancel }))
	if j := b.state("d", rota.JobCancelled); len(j.Fingerprint) != 0 {
		t.Errorf("%x", j.Fingerprint)
	}
}
