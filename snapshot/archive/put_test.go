package archive

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rotasched/rota/internal/peer"
	"go.etcd.io/bbolt"
)

// TestJobs_putStaged compares what a node writes from its own state with the bytes of the same records received from
// another node.
func TestJobs_putStaged(t *testing.T) {
	t.Parallel()
	e, random := newEndings(t), rand.NewChaCha8([32]byte{7})
	for i := range 300 {
		payload := bytes.Repeat([]byte("compresses "), i*7)
		if i%3 == 0 { // or not at all
			_, _ = random.Read(payload)
		}
		e.end(fmt.Sprintf("job-%d", i), payload)
		if i%10 == 0 {
			e.again(fmt.Sprintf("job-%d", i))
		}
	}
	brought, own := newJobs(t), newJobs(t)
	staged := e.m.Staged(1<<30, 1<<40)
	for at := 0; at < len(staged); at += 100 {
		part := staged[at:min(at+100, len(staged))]
		var entries []peer.ArchiveRecord
		for _, s := range part {
			entries = append(entries, peer.ArchiveRecord{Seq: s.Seq, Data: s.Append(nil)})
		}
		put(t, brought, entries)
		for range 2 { // a batch may be repeated
			if err := own.PutStaged(part, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	want, got := contents(t, brought), contents(t, own)
	if len(want) < 20 || len(want) != len(got) {
		t.Fatalf("got %d keys, want %d", len(got), len(want))
	}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("key %q: got %x, want %x", key, got[key], value)
		}
	}
	if err := own.PutStaged(staged[:1], 7); err != nil || own.Applied() != 7 {
		t.Errorf("records of the state at entry 7: applied is %d, %v", own.Applied(), err)
	}
	if next, _, damaged, err := own.Scrub(0, 1<<30); err != nil || next != 0 || len(damaged) > 0 {
		t.Errorf("scrubbing stops at %d, finds %d, %v", next, damaged, err)
	}
}

// contents returns all keys of an archive, by bucket.
func contents(t *testing.T, a *Jobs) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := a.db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				all[string(name)+"/"+string(k)] = string(v)
				return nil
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
