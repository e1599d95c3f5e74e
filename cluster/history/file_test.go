package history

import (
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota/fsm"
)

// TestFile_newestFormatUnderNewRules checks that v0.1.0 can read the file until rules version 2 is in force.
func TestFile_newestFormatUnderNewRules(t *testing.T) {
	t.Parallel()
	f, err := OpenFile(FileOptions{Path: filepath.Join(t.TempDir(), "archive.db"), Retained: 10, NoSync: true, Fresh: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.DB.Close() })
	for _, x := range []struct {
		rules  uint32
		format byte
	}{{1, 2}, {2, 3}, {1, 3}} {
		if _, err := f.claim(fsm.Head{ClusterID: "c", Incarnation: 1, Rules: x.rules}); err != nil {
			t.Fatal(err)
		}
		_ = f.DB.View(func(tx *bbolt.Tx) error {
			if got := tx.Bucket([]byte("jobs.meta")).Get([]byte("format")); len(got) != 1 || got[0] != x.format {
				t.Errorf("rules version %d: format %v, want %d", x.rules, got, x.format)
			}
			return nil
		})
	}
}
