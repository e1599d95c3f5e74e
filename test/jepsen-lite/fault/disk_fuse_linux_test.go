package fault

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// mounted returns a disk that is removed after the test.
func mounted(t *testing.T) *disk {
	t.Helper()
	if err := canMakeDisks(); err != nil {
		t.Skipf("cannot make a disk here: %v", err)
	}
	dir := t.TempDir()
	d, err := startDisk(filepath.Join(dir, "base"), filepath.Join(dir, "disk"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put writes a file's beginning; sync keeps it.
func put(t *testing.T, path, text string, sync bool) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, err)
	_, err = f.WriteString(text)
	must(t, err)
	if sync {
		must(t, f.Sync())
	}
	must(t, f.Close())
}

func syncDirectory(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		got = []byte("(" + err.Error()[strings.LastIndex(err.Error(), ": ")+2:] + ")")
	}
	if string(got) != want {
		t.Errorf("%s holds %.40q, want %.40q", filepath.Base(path), got, want)
	}
}

const isNot = "(no such file or directory)"

func cutPower(t *testing.T, d *disk) lost {
	t.Helper()
	took, err := d.lose(0)
	must(t, err)
	return took
}

func TestDisk_dataThatWasNotSyncedIsLost(t *testing.T) {
	d := mounted(t)
	file := filepath.Join(d.dir, "file")
	long := strings.Repeat("x", 3*diskBlock) + "end"
	put(t, file, long, true)
	syncDirectory(t, d.dir)
	if took := cutPower(t, d); took != (lost{}) {
		t.Errorf("%+v was lost though all was synced", took)
	}
	holds(t, file, long)
	put(t, file, "yy", false)
	holds(t, file, "yy"+long[2:])
	cutPower(t, d)
	holds(t, file, long)
	for _, size := range []int64{0, diskBlock + 1, 5 * diskBlock} {
		must(t, os.Truncate(file, size))
		if info, err := os.Stat(file); err != nil || info.Size() != size {
			t.Errorf("stat returns %v, %v of a file of %d", info, err, size)
		}
		cutPower(t, d)
		holds(t, file, long)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.WriteString("more")
	must(t, err)
	must(t, f.Sync())
	_, err = f.WriteString("even more")
	must(t, err)
	must(t, f.Close())
	holds(t, file, long+"moreeven more")
	cutPower(t, d)
	holds(t, file, long+"more")
}

func TestDisk_namesThatWereNotSyncedAreLost(t *testing.T) {
	d := mounted(t)
	at := func(name string) string { return filepath.Join(d.dir, name) }
	put(t, at("made"), "content", true)
	cutPower(t, d)
	holds(t, at("made"), isNot)

	put(t, at("kept"), "content", true)
	syncDirectory(t, d.dir)
	put(t, at("temp"), "newer", true)
	must(t, os.Rename(at("temp"), at("kept")))
	holds(t, at("kept"), "newer")
	cutPower(t, d)
	holds(t, at("kept"), "content")
	put(t, at("temp"), "newer", true)
	must(t, os.Rename(at("temp"), at("kept")))
	syncDirectory(t, d.dir)
	cutPower(t, d)
	holds(t, at("kept"), "newer")
	holds(t, at("temp"), isNot)

	// A directory that is filled, synced within, renamed, and removed again.
	must(t, os.Mkdir(at("dir.tmp"), 0o700))
	put(t, at("dir.tmp/a"), "a", true)
	must(t, os.Link(at("dir.tmp/a"), at("dir.tmp/link")))
	syncDirectory(t, at("dir.tmp"))
	must(t, os.Rename(at("dir.tmp"), at("dir")))
	holds(t, at("dir/link"), "a")
	cutPower(t, d)
	holds(t, at("dir/a"), isNot)
	must(t, os.Mkdir(at("dir.tmp"), 0o700))
	put(t, at("dir.tmp/a"), "a", true)
	syncDirectory(t, at("dir.tmp"))
	must(t, os.Rename(at("dir.tmp"), at("dir")))
	syncDirectory(t, d.dir)
	must(t, os.RemoveAll(at("dir")))
	holds(t, at("dir/a"), isNot)
	cutPower(t, d)
	holds(t, at("dir/a"), "a")
	must(t, os.RemoveAll(at("dir")))
	syncDirectory(t, d.dir)
	cutPower(t, d)
	holds(t, at("dir/a"), isNot)
}

func TestDisk_syncIsSlowOrHangs(t *testing.T) {
	d := mounted(t)
	f, err := os.Create(filepath.Join(d.dir, "file"))
	must(t, err)
	defer f.Close()
	end, err := d.faults.begin(diskFault{SyncDelayMs: 300})
	must(t, err)
	begin := time.Now()
	must(t, f.Sync())
	if took := time.Since(begin); took < 300*time.Millisecond {
		t.Errorf("a slow fsync took %s", took)
	}
	must(t, end())
	end, err = d.faults.begin(diskFault{SyncHang: true})
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- syscall.Fdatasync(int(f.Fd())) }()
	select {
	case err := <-done:
		t.Errorf("a hung fdatasync came back: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	must(t, end())
	must(t, <-done)
}

func TestDisk_errorsAndNoRoom(t *testing.T) {
	d := mounted(t)
	path := filepath.Join(d.dir, "file")
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	wants := func(what string, err error, want syscall.Errno) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, wanted %v", what, err, want)
		}
	}
	end, err := d.faults.begin(diskFault{FailSync: 2})
	must(t, err)
	_, err = f.WriteString(strings.Repeat("1", diskBlock))
	must(t, err)
	must(t, f.Sync())
	_, err = f.WriteAt([]byte("2"), 0)
	must(t, err)
	wants("the second fsync", f.Sync(), syscall.EIO)
	must(t, f.Sync())
	must(t, end())
	syncDirectory(t, d.dir)
	must(t, f.Close())
	holds(t, path, "2"+strings.Repeat("1", diskBlock-1))
	cutPower(t, d)
	// Data covered by a failed fsync is not kept by the next one.
	holds(t, path, strings.Repeat("1", diskBlock))

	f, err = os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	must(t, f.Truncate(4*diskBlock))
	end, err = d.faults.begin(diskFault{Full: true})
	must(t, err)
	_, err = f.WriteAt([]byte("3"), 5)
	must(t, err) // it already has its place
	_, err = f.WriteAt([]byte("3"), 2*diskBlock)
	wants("a write into a hole", err, syscall.ENOSPC)
	_, err = f.WriteAt([]byte("3"), 4*diskBlock)
	wants("a write that grows", err, syscall.ENOSPC)
	wants("a new file", os.WriteFile(filepath.Join(d.dir, "new"), nil, 0o600), syscall.ENOSPC)
	var st syscall.Statfs_t
	must(t, syscall.Statfs(d.dir, &st))
	if st.Bavail != 0 {
		t.Errorf("%d blocks are free on a full disk", st.Bavail)
	}
	must(t, end())
	_, err = f.WriteAt([]byte("3"), 4*diskBlock)
	must(t, err)
	end, err = d.faults.begin(diskFault{FailWrites: true, FreeMiB: 700})
	must(t, err)
	_, err = f.WriteAt([]byte("4"), 0)
	wants("a write", err, syscall.EIO)
	must(t, syscall.Statfs(d.dir, &st))
	if free := st.Bavail * uint64(st.Bsize) >> 20; free != 700 {
		t.Errorf("%d MiB are free, want 700", free)
	}
	must(t, end())
}

// TestDisk_database makes a real bbolt file lose unsynced data, over and over: each time all committed data is there,
// and not without fsync.
func TestDisk_database(t *testing.T) {
	d := mounted(t)
	path := filepath.Join(d.dir, "db")
	open := func(noSync bool) *bbolt.DB {
		t.Helper()
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: noSync, NoFreelistSync: true,
			InitialMmapSize: 1 << 24, Timeout: time.Second})
		must(t, err)
		return db
	}
	// fill commits, and reads each entry back through the memory map.
	fill := func(db *bbolt.DB, from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			key, value := fmt.Appendf(nil, "%06d", i), bytes.Repeat([]byte{byte(i)}, 300)
			must(t, db.Update(func(tx *bbolt.Tx) error {
				b, err := tx.CreateBucketIfNotExists([]byte("b"))
				if err != nil {
					return err
				}
				return b.Put(key, value)
			}))
			must(t, db.View(func(tx *bbolt.Tx) error {
				if got := tx.Bucket([]byte("b")).Get(key); !bytes.Equal(got, value) {
					return fmt.Errorf("entry %d reads as %.20q", i, got)
				}
				return nil
			}))
		}
	}
	count := func(db *bbolt.DB) (n int) {
		t.Helper()
		must(t, db.View(func(tx *bbolt.Tx) error {
			for err := range tx.Check() {
				t.Errorf("after the loss of power: %v", err)
			}
			if b := tx.Bucket([]byte("b")); b != nil {
				n = b.Stats().KeyN
			}
			return nil
		}))
		return n
	}
	db := open(false)
	syncDirectory(t, d.dir)
	for seed := range uint64(6) {
		fill(db, int(seed)*40, int(seed+1)*40)
		// A transaction that is not committed, and pages that are never synced.
		tx, err := db.Begin(true)
		must(t, err)
		must(t, tx.Bucket([]byte("b")).Put([]byte("half"), make([]byte, 100_000)))
		must(t, tx.Rollback())
		must(t, db.Close())
		_, err = d.lose(seed) // 0 loses all that can be lost, others a part
		must(t, err)
		db = open(false)
		if n, want := count(db), int(seed+1)*40; n != want {
			t.Errorf("%d entries are left, %d were committed", n, want)
		}
	}
	must(t, db.Close())
	db = open(true)
	fill(db, 240, 280)
	must(t, db.Close())
	cutPower(t, d)
	db = open(false)
	if n := count(db); n != 240 {
		t.Errorf("%d entries are left, though only 240 were synced", n)
	}
	must(t, db.Close())
}
