package fault

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rotasched/rota/cluster/raftstore/wal"
	"go.etcd.io/bbolt"
)

// TestDisk_whatAFailedSyncLeft: the second fsync of a commit, that of bbolt's meta page, fails, and the node ends.
// After its restart the page is in the kernel's cache as if it had been written: the log is one entry longer than on
// the disk, and a leader may count the entry. Only the next commit keeps it, so a log must make one, even an empty one,
// when it is opened.
func TestDisk_whatAFailedSyncLeft(t *testing.T) {
	for name, c := range map[string]struct{ commits, kept bool }{
		"opened with a commit": {true, true},
		"opened without":       {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := mounted(t)
			path := filepath.Join(d.dir, "raft.db")
			db := openLog(t, path)
			syncDirectory(t, d.dir)
			for i := range uint64(20) {
				must(t, appendTo(db, i+1))
			}
			end, err := d.faults.begin(diskFault{FailSync: 2})
			must(t, err)
			if err := appendTo(db, 21); !errors.Is(err, syscall.EIO) {
				t.Fatalf("the commit whose fsync failed: %v", err)
			}
			must(t, db.Close())
			must(t, end())
			db = openLog(t, path)
			if c.commits {
				must(t, db.Update(func(*bbolt.Tx) error { return nil }))
			}
			counted := entriesOf(t, db)
			if counted != 21 {
				t.Fatalf("%d entries are counted after the restart: the fault did not strike at its target", counted)
			}
			must(t, db.Close())
			cutPower(t, d)
			db = openLog(t, path)
			left := entriesOf(t, db)
			must(t, db.Close())
			if kept := left == counted; kept != c.kept {
				t.Errorf("%d entries were counted, %d are there after the loss of power", counted, left)
			}
		})
	}
}

func openLog(t *testing.T, path string) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, NoFreelistSync: true,
		InitialMmapSize: 1 << 30})
	must(t, err)
	return db
}

func appendTo(db *bbolt.DB, index uint64) error {
	return db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("logs"))
		if err != nil {
			return err
		}
		return b.Put(binary.BigEndian.AppendUint64(nil, index), make([]byte, 100))
	})
}

func entriesOf(t *testing.T, db *bbolt.DB) (n int) {
	t.Helper()
	must(t, db.View(func(tx *bbolt.Tx) error {
		n = tx.Bucket([]byte("logs")).Stats().KeyN
		return nil
	}))
	return n
}

// TestDisk_whatAFailedSyncOfTheLogLeft: the same for the log. The fsync of a batch fails, and the batch is in the
// kernel's cache after the restart. Opening the log writes it again, so all counted entries are on the disk.
func TestDisk_whatAFailedSyncOfTheLogLeft(t *testing.T) {
	d := mounted(t)
	dir, head := filepath.Join(d.dir, "log"), wal.Head{}
	open := func() *wal.Log {
		l, err := wal.Open(dir, head, wal.Options{SaveHead: func(h wal.Head) error { head = h; return nil }})
		must(t, err)
		return l
	}
	last := func(l *wal.Log) uint64 {
		index, err := l.LastIndex()
		must(t, err)
		return index
	}
	l := open()
	for i := range uint64(20) {
		must(t, l.StoreLog(&wal.Entry{Index: i + 1, Term: 1, Data: make([]byte, 100)}))
	}
	must(t, l.SaveMark())
	end, err := d.faults.begin(diskFault{FailSync: 1})
	must(t, err)
	if err := l.StoreLog(&wal.Entry{Index: 21, Term: 1, Data: make([]byte, 100)}); !errors.Is(err, syscall.EIO) {
		t.Fatalf("the batch whose fsync failed: %v", err)
	}
	must(t, l.Close())
	must(t, end())
	l = open()
	counted := last(l)
	if counted != 21 {
		t.Fatalf("%d entries are counted after the restart: the fault did not strike at its target", counted)
	}
	must(t, l.Close())
	cutPower(t, d)
	l = open()
	if left := last(l); left != counted {
		t.Errorf("%d entries were counted, %d are there after the loss of power", counted, left)
	}
	must(t, l.Close())
}

// TestDisk_tornBatch: a loss of power before the sync of a batch leaves a part of it, or nothing. The log opens with the
// entries before it and some of its own.
func TestDisk_tornBatch(t *testing.T) {
	for round := range 10 {
		d := mounted(t)
		dir, head := filepath.Join(d.dir, "log"), wal.Head{}
		open := func(noSync bool) *wal.Log {
			l, err := wal.Open(dir, head, wal.Options{NoSync: noSync,
				SaveHead: func(h wal.Head) error { head = h; return nil }})
			must(t, err)
			return l
		}
		batch := func(first uint64) (all []*wal.Entry) {
			for i := range uint64(10) {
				all = append(all, &wal.Entry{Index: first + i, Term: 1, Data: bytes.Repeat([]byte{byte(i)}, 3000)})
			}
			return all
		}
		l := open(false)
		must(t, l.StoreLogs(batch(1)))
		must(t, l.StoreLogs(batch(11)))
		must(t, l.Close())
		marked := head
		l = open(true)
		head = marked
		must(t, l.StoreLogs(batch(21))) // not synced
		must(t, l.Close())
		cutPower(t, d)
		head = marked
		l = open(false)
		last, err := l.LastIndex()
		must(t, err)
		if last < 20 || last > 30 {
			t.Errorf("round %d: the log ends at %d", round, last)
		}
		for i := uint64(1); i <= last; i++ {
			var e wal.Entry
			must(t, l.GetLog(i, &e))
		}
		must(t, l.StoreLogs(batch(last+1)))
		must(t, l.Close())
	}
}

// A node makes its own socket on its disk. A loss of power may destroy the name, and leaves at most that: it is removed
// and made again.
func TestDisk_socket(t *testing.T) {
	t.Parallel()
	d := mounted(t)
	path := filepath.Join(d.dir, "s")
	for range 2 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		served, err := net.Listen("unix", path)
		must(t, err)
		must(t, os.Chmod(path, 0o600))
		called, err := net.Dial("unix", path)
		must(t, err)
		must(t, called.Close())
		served.(*net.UnixListener).SetUnlinkOnClose(false)
		must(t, served.Close())
		cutPower(t, d)
	}
}
