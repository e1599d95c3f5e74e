package boltfile

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
)

// TestCheckPages_holdsBboltToItsOwnRules checks the files of bbolt over many writes of all kinds: none is mistaken for
// damage.
func TestCheckPages_holdsBboltToItsOwnRules(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, NoGrowSync: true, NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	random := rand.New(rand.NewPCG(7, 7))
	words := func(path, what string) *rota.Error {
		return rota.Refusef(rota.KindConflict, "test", "%s: %s", path, what)
	}
	for round := range 250 {
		if err := db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte{byte(round % 3)})
			if err != nil {
				return err
			}
			from := random.Uint64N(1000)
			for i := range random.Uint64N(200) {
				key := binary.BigEndian.AppendUint64(nil, random.Uint64N(1000))
				if round%2 == 0 { // a run of keys, as retention deletes them
					key = binary.BigEndian.AppendUint64(nil, from+i)
				}
				if random.IntN(5) < round/5%5 {
					err = b.Delete(key)
				} else {
					err = b.Put(key, make([]byte, random.IntN(1<<random.IntN(13))))
				}
				if err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := Check(path, words); err != nil {
			t.Fatalf("after write %d: %v", round, err)
		}
	}
}

// TestCheckPages_wantsAPageUnderItsFirstKey makes the first key of a page greater, which
// breaks no order: bbolt would not find the page to write it again.
func TestCheckPages_wantsAPageUnderItsFirstKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("b"))
		for i := uint64(0); err == nil && i < 100; i++ {
			err = b.Put(binary.BigEndian.AppendUint64(nil, 8*i), make([]byte, 200))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	size, at := os.Getpagesize(), 0
	for page := 2 * size; page < len(data) && at == 0; page += size {
		if binary.NativeEndian.Uint16(data[page+8:]) == branch { // the second page under it
			child := size * int(elementAt(branch, data[page+pageHeader+elementBytes:]).child)
			at = child + pageHeader + elementBytes*int(binary.NativeEndian.Uint16(data[child+10:])) + 7
		}
	}
	words := func(path, what string) *rota.Error {
		return rota.Refusef(rota.KindConflict, "test", "%s: %s", path, what)
	}
	if err := Check(path, words); err != nil {
		t.Fatal(err)
	}
	data[at] ^= 2
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Check(path, words); rota.KindOf(err) != rota.KindConflict {
		t.Errorf("a page under another key than its first is accepted as sound: %v", err)
	}
}

// TestCheck_cutOff cuts files behind everything that their trees refer to: what follows are free pages, which bbolt reads
// too.
func TestCheck_cutOff(t *testing.T) {
	t.Parallel()
	for _, options := range []*bbolt.Options{nil, {NoFreelistSync: true}} {
		path := filepath.Join(t.TempDir(), "test.db")
		db, err := bbolt.Open(path, 0o600, options)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{1 << 16, 1} { // the second write leaves the pages of the first free
			if err := db.Update(func(tx *bbolt.Tx) error {
				b, err := tx.CreateBucketIfNotExists([]byte("b"))
				if err != nil {
					return err
				}
				return b.Put([]byte("k"), make([]byte, size))
			}); err != nil {
				t.Fatal(err)
			}
		}
		_ = db.Close()
		words := func(path, what string) *rota.Error {
			return rota.Refusef(rota.KindConflict, "test", "%s: %s", path, what)
		}
		if err := Check(path, words); err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		w := &walk{path: path, words: words, file: bytes.NewReader(file)}
		if _, err := w.heads(); err != nil {
			t.Fatal(err)
		}
		for _, size := range []int64{int64(w.pages * w.pageSize), int64(w.pages*w.pageSize) - 1, int64(2 * w.pageSize)} {
			if err := os.Truncate(path, size); err != nil {
				t.Fatal(err)
			}
			if err, cut := Check(path, words), size < int64(w.pages*w.pageSize); (err != nil) != cut {
				t.Errorf("%d of %d pages: %v", size/int64(w.pageSize), w.pages, err)
			}
		}
	}
}
