package e2e

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// An attestation lets its worker serve its cluster until its date, signed with a key that the nodes were given; nothing
// else does, and a refused one is not stored.
func TestAttestation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	public := command(t, nil, "", "worker", "attest", "--generate-key", file("key.pem")).want(t, 0).stdout
	writeFile(t, file("key.pub"), public)
	seed := sha256.Sum256([]byte("an older key"))
	writeFile(t, file("old.seed"), fmt.Sprintf("%x\n", seed))
	old := ed25519.NewKeyFromSeed(seed[:])
	writeFile(t, file("old.pub"), fmt.Sprintf("# retired next year\n%x\n", old.Public()))
	command(t, nil, "", "worker", "attest", "--generate-key", file("stranger.pem")).want(t, 0)

	c := newCluster(t, 3, "--attestation-key", file("key.pub"), "--attestation-key", file("old.pub"))
	c.rota(t, "queue", "set", "trusted", "--set", "require_attestation=on").want(t, 0)
	s, err := c.status(t)
	check(t, err)
	attest := func(name, key string, more ...string) string {
		t.Helper()
		args := append([]string{"worker", "attest", "--key", file(key), "--expires", "1h"}, more...)
		return writeFile(t, file(name), c.rota(t, args...).want(t, 0).stdout)
	}
	good := attest("good.json", "key.pem", "--worker", "good")
	attest("older.json", "old.seed", "--worker", "older", "--cluster-id", string(s.ClusterID))
	attest("stranger.json", "stranger.pem", "--worker", "bad")
	attest("elsewhere.json", "key.pem", "--worker", "bad", "--cluster-id", "c-elsewhere")
	attest("other.json", "key.pem", "--worker", "other")
	expired, err := rota.Attest(old, s.ClusterID, "bad", rota.Date(time.Now().Add(-time.Hour).UnixMilli()), 0)
	check(t, err)
	text, err := json.Marshal(expired)
	check(t, err)
	writeFile(t, file("expired.json"), string(text))
	changed := expired
	changed.Expires += rota.Date(48 * time.Hour / time.Millisecond)
	text, err = json.Marshal(changed)
	check(t, err)
	writeFile(t, file("changed.json"), string(text))

	changesNothing(t, c, "refused attestations", func() {
		for name, says := range map[string]string{
			"expired.json": "expired at", "stranger.json": "does not name", "elsewhere.json": `"c-elsewhere"`,
			"other.json": `for worker "other"`, "changed.json": "signature is wrong",
		} {
			r := c.rota(t, "worker", "run", "--queues", "trusted", "--id", "bad", "--attestation", file(name)).want(t,
				8)
			contains(t, name, r.stderr, says)
		}
	})
	c.rota(t, "worker", "show", "bad").want(t, 3)

	c.rota(t, "job", "submit", "--queue", "trusted", "--type", "x", "--id", "j1").want(t, 0)
	c.worker(t, "--queues", "trusted", "--id", "nameless") // registers, and gets nothing
	c.rota(t, "job", "wait", "j1", "--timeout", "1500ms").want(t, 5)
	c.worker(t, "--queues", "trusted", "--attestation", good)
	c.rota(t, "job", "wait", "j1", "--timeout", "20s").want(t, 0)
	c.worker(t, "--queues", "trusted", "--attestation", file("older.json"))
	var w rota.Worker
	for _, id := range []string{"good", "older"} {
		w = decode[rota.Worker](t, c.rota(t, "worker", "show", id, "-o", "json"))
		if left := time.Until(time.UnixMilli(int64(w.AttestedUntil))); left < 50*time.Minute || left > 70*time.Minute {
			t.Errorf("worker %s is attested for %s more", id, left)
		}
	}
	if job := c.job(t, "j1"); job.Attempts[0].Worker != "good" {
		t.Errorf("the job went to %s", job.Attempts[0].Worker)
	}
	newNode(t, "n9", "--attestation-key", file("none.pub")).refused(t, "--attestation-key")
	newNode(t, "n9", "--attestation-key", file("key.pem")).refused(t, "PUBLIC KEY")
}
