package raftstore

import (
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
)

// TestStores_cutInSlices cuts a long log in several writes: a single one would block the log until the disk counts as
// dead.
func TestStores_cutInSlices(t *testing.T) {
	t.Parallel()
	var writes atomic.Int64
	s, err := Open(t.TempDir(), Options{NoSync: true, BeforeWrite: func() { writes.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const many = 2*cutAtOnce + 500
	for i := uint64(1); i <= many; {
		var batch []*raft.Log
		for ; i <= many && len(batch) < 5000; i++ {
			batch = append(batch, &raft.Log{Index: i, Term: 1, Data: make([]byte, 16)})
		}
		if err := s.log.StoreLogs(batch); err != nil {
			t.Fatal(err)
		}
	}
	writes.Store(0)
	if err := s.CutStored(1, many-10); err != nil {
		t.Fatal(err)
	}
	if first, err := s.log.FirstIndex(); err != nil || first != many-9 || writes.Load() != 3 {
		t.Errorf("the log begins at %d after %d writes, %v", first, writes.Load(), err)
	}
}
