package raftstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

// cutPower removes the disk under the open files of a directory: from now on every write appears to succeed and goes
// nowhere, and only the sync fails. A process whose last writes are lost in a power failure sees the same. bbolt has no
// hook for its file, so descriptors are redirected to the null device, which accepts writes and rejects syncs.
func cutPower(t *testing.T, dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if err := syscall.Fdatasync(int(null.Fd())); err == nil {
		t.Skip("this system syncs its null device, which therefore cannot simulate a disk that loses its data")
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("cannot find the descriptors of %s: %v", dir, err)
	}
	cut := 0
	for _, fd := range fds {
		var number int
		if open, err := os.Readlink("/proc/self/fd/" + fd.Name()); err != nil || !strings.HasPrefix(open, dir+"/") {
			continue
		}
		if _, err := fmt.Sscan(fd.Name(), &number); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Dup3(int(null.Fd()), number, syscall.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		cut++
	}
	if cut < 2 {
		t.Fatalf("%d files of %s are open", cut, dir)
	}
}

// TestOpenStoresCommits: data that the previous process wrote and could not sync is only in the kernel's cache. It must
// be on the disk before it is read and counted.
func TestOpenStoresCommits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	commits := func() (n int) {
		t.Helper()
		db, err := bbolt.Open(filepath.Join(dir, raftFile), 0o600,
			&bbolt.Options{ReadOnly: true, Timeout: raftFileLock})
		if err == nil {
			err = errors.Join(db.View(func(tx *bbolt.Tx) error { n = tx.ID(); return nil }), db.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for before := -1; before < 3; {
		stores, err := Open(dir, Options{Fatal: newFatalRecorder().fatal})
		if err != nil {
			t.Fatal(err)
		}
		if err := stores.Close(); err != nil {
			t.Fatal(err)
		}
		now := commits()
		if before >= 0 && now <= before {
			t.Fatalf("raft.db was opened without a commit: the last is number %d, as before", now)
		}
		before = now
	}
}

// TestPowerLoss: everything acknowledged as successful is present after the power returns.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		write func(*Stores) error
		kept  func(*Stores) bool
	}{
		"an entry": {
			func(s *Stores) error { return s.Log.StoreLogs(testEntries(301, 302, 2)) },
			func(s *Stores) bool { last, err := s.Log.LastIndex(); return err == nil && last == 302 },
		},
		"a cut": {
			func(s *Stores) error { return s.Log.DeleteRange(1, 100) },
			func(s *Stores) bool { first, err := s.Log.FirstIndex(); return err == nil && first == 101 },
		},
		"a vote": {
			func(s *Stores) error {
				return errors.Join(s.Stable.SetUint64(keyLastVoteTerm, 7), s.Stable.Set(keyLastVoteCand, []byte("b:1")))
			},
			func(s *Stores) bool { term, err := s.Stable.GetUint64(keyLastVoteTerm); return err == nil && term == 7 },
		},
		"a term": {
			func(s *Stores) error {
				// A term that cannot be stored ends the goroutine: see setTerm.
				answered := make(chan error, 1)
				go func() {
					err := errors.New("the calling goroutine ended")
					defer func() { answered <- err }()
					err = s.Stable.SetUint64(keyCurrentTerm, 9)
				}()
				return <-answered
			},
			func(s *Stores) bool { term, err := s.Stable.GetUint64(keyCurrentTerm); return err == nil && term == 9 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			recorder := newFatalRecorder()
			stores, err := Open(dir, Options{Fatal: recorder.fatal})
			if err != nil {
				t.Fatal(err)
			}
			defer stores.Close()
			// Enough that the file need not grow afterwards: growing syncs too.
			for first := uint64(1); first < 300; first += 100 {
				if err := stores.Log.StoreLogs(testEntries(first, first+99, 1)); err != nil {
					t.Fatal(err)
				}
			}
			vote(t, stores, 4, "a:1")
			cutPower(t, dir)
			err = c.write(stores)
			if err == nil {
				t.Errorf("%s was acknowledged although the disk never confirmed it", name)
			} else if len(recorder.all()) != 1 || stores.Failed() == nil {
				t.Errorf("a failed sync (%v) does not end the process: fatal %v", err, recorder.all())
			}
			if err := stores.Close(); err != nil {
				t.Fatal(err)
			}
			acked := err == nil
			after := openTestStores(t, dir, nil)
			if acked && !c.kept(after) {
				t.Errorf("%s was acknowledged and is lost after the power failure", name)
			}
			wantVote(t, after, 4, "a:1")
			var entry raft.Log
			for _, index := range []uint64{1, 150, 300} {
				if err := after.Log.GetLog(index, &entry); err != nil {
					t.Errorf("entry %d, which was synced, is lost: %v", index, err)
				}
			}
		})
	}
}
