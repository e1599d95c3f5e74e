package cluster

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	"github.com/rotasched/rota"
)

// The layout of a bbolt file (its internal/common: page.go, meta.go, inode.go).
const (
	boltMagic       = 0xED0CDAED
	boltVersion     = 2
	boltPageHeader  = 16
	boltHeadBytes   = 64 // of a head, its checksum in the last 8
	boltElement     = 16
	boltBranch      = 0x01
	boltLeaf        = 0x02
	boltBucket      = 0x01
	boltPageMin     = 512
	boltPageMax     = 1 << 16
	boltRunMax      = 1 << 20 // pages in one run: no entry is near that
	boltBucketBytes = 16
	boltDepthMax    = 32
)

// boltWalk checks the tree of a bbolt file page by page. bbolt's own check does
// so on a goroutine of its own, where a panic over damage ends the process, and
// nothing but the two heads has a checksum: a flipped bit in a page's header can
// take the newest entries off the log without a trace. bbolt writes pages
// without a hole in them, so what a header says can be held against the rest.
type boltWalk struct {
	path     string
	words    func(path, what string) *rota.Error // of a refusal
	file     io.ReaderAt
	pageSize uint64
	pages    uint64 // how many are in use
}

// checkHeads checks the heads only.
func checkHeads(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open raft log: %w", err)
	}
	defer file.Close()
	_, err = (&boltWalk{path: path, words: damaged, file: file}).heads()
	return err
}

// checkPages checks the heads and every page in use. words are the refusal's.
func checkPages(path string, words func(path, what string) *rota.Error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer file.Close()
	w := &boltWalk{path: path, words: words, file: file}
	root, err := w.heads()
	if err != nil {
		return err
	}
	return w.page(root, nil, nil, 0)
}

// heads checks both heads and gives the root of the newest. bbolt takes the
// other one when the newest is damaged, which silently takes back the last
// transaction: a vote, or an entry that this node has acknowledged. A torn write
// does not look like that, as a head fits a sector.
func (w *boltWalk) heads() (root uint64, err error) {
	newest := uint64(0)
	at := int64(0)
	for i := range 2 {
		var page [boltPageHeader + boltHeadBytes]byte
		if _, err := w.file.ReadAt(page[:], at); err != nil {
			return 0, w.damaged("head %d cannot be read (%v)", i, err)
		}
		head := page[boltPageHeader:]
		sum := fnv.New64a()
		sum.Write(head[:boltHeadBytes-8])
		size := uint64(binary.NativeEndian.Uint32(head[8:]))
		if binary.NativeEndian.Uint32(head) != boltMagic || binary.NativeEndian.Uint32(head[4:]) != boltVersion ||
			binary.NativeEndian.Uint64(head[boltHeadBytes-8:]) != sum.Sum64() ||
			size < boltPageMin || size > boltPageMax {
			return 0, w.damaged("head %d does not match its checksum", i)
		}
		if txid := binary.NativeEndian.Uint64(head[48:]); txid > newest || i == 0 {
			newest, w.pageSize = txid, size
			root, w.pages = binary.NativeEndian.Uint64(head[16:]), binary.NativeEndian.Uint64(head[40:])
		}
		at = int64(size)
	}
	return root, nil
}

func (w *boltWalk) damaged(format string, args ...any) *rota.Error {
	return w.words(w.path, fmt.Sprintf(format, args...))
}

// page checks a page and all beneath it. Its keys must begin with low and be below
// high; nil is no bound. bbolt finds a page in the one above by its first key: with
// another one it would write a second reference to it, and end the process later.
func (w *boltWalk) page(id uint64, low, high []byte, depth int) error {
	if id < 2 || id >= w.pages || depth > boltDepthMax {
		return w.damaged("page %d is referred to, %d are in use", id, w.pages)
	}
	var head [boltPageHeader]byte
	if _, err := w.file.ReadAt(head[:], int64(id*w.pageSize)); err != nil {
		return w.damaged("page %d cannot be read (%v)", id, err)
	}
	run := uint64(binary.NativeEndian.Uint32(head[12:])) + 1
	if binary.NativeEndian.Uint64(head[:]) != id || run > boltRunMax || id+run > w.pages {
		return w.damaged("page %d does not know itself", id)
	}
	page := make([]byte, run*w.pageSize)
	if _, err := w.file.ReadAt(page, int64(id*w.pageSize)); err != nil {
		return w.damaged("page %d cannot be read (%v)", id, err)
	}
	used, err := w.elements(id, page, low, high, depth)
	// bbolt rounds up; before its version 1.4 an exact multiple got a page more.
	if err == nil && run != (used+w.pageSize-1)/w.pageSize && run != used/w.pageSize+1 {
		err = w.damaged("page %d has %d bytes but a run of %d", id, used, run)
	}
	return err
}

// elements checks the elements of a page, or of a bucket kept within another
// page, and gives how many bytes are used.
func (w *boltWalk) elements(id uint64, page, low, high []byte, depth int) (used uint64, err error) {
	kind := binary.NativeEndian.Uint16(page[8:])
	count := uint64(binary.NativeEndian.Uint16(page[10:]))
	if kind != boltBranch && kind != boltLeaf || kind == boltBranch && count == 0 {
		return 0, w.damaged("page %d is of kind %#x with %d elements", id, kind, count)
	}
	end := boltPageHeader + count*boltElement // of what is accounted for
	if end > uint64(len(page)) {
		return 0, w.damaged("page %d has %d elements", id, count)
	}
	var former []byte
	children := make([]uint64, 0, count)
	keys := make([][]byte, 0, count)
	for i := range count {
		at := boltPageHeader + i*boltElement
		element := boltElementAt(kind, page[at:])
		if at+element.pos != end || element.keyBytes+element.valueBytes > uint64(len(page))-end {
			return 0, w.damaged("element %d of page %d is out of place", i, id)
		}
		key := page[end : end+element.keyBytes]
		value := page[end+element.keyBytes : end+element.keyBytes+element.valueBytes]
		end += element.keyBytes + element.valueBytes
		if i > 0 && bytes.Compare(former, key) >= 0 || i == 0 && low != nil && !bytes.Equal(key, low) ||
			high != nil && bytes.Compare(key, high) >= 0 {
			return 0, w.damaged("element %d of page %d is out of order", i, id)
		}
		former = key
		keys, children = append(keys, key), append(children, element.child)
		switch {
		case element.flags > boltBucket:
			return 0, w.damaged("element %d of page %d has flags %#x", i, id, element.flags)
		case element.flags == boltBucket:
			if err := w.bucket(id, value, depth); err != nil {
				return 0, err
			}
		}
	}
	if kind == boltLeaf {
		return end, nil
	}
	for i, child := range children {
		next := high
		if i+1 < len(keys) {
			next = keys[i+1]
		}
		if err := w.page(child, keys[i], next, depth+1); err != nil {
			return 0, err
		}
	}
	return end, nil
}

// bucket checks a bucket: one with its own root, or a small one kept in value.
func (w *boltWalk) bucket(id uint64, value []byte, depth int) error {
	if len(value) < boltBucketBytes {
		return w.damaged("page %d holds a bucket of %d bytes", id, len(value))
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return w.page(root, nil, nil, depth+1)
	}
	if len(value) < boltBucketBytes+boltPageHeader {
		return w.damaged("page %d holds a bucket of %d bytes", id, len(value))
	}
	_, err := w.elements(id, value[boltBucketBytes:], nil, nil, depth+1)
	return err
}

// boltElementParts is an element's header: of a leaf, or of a branch.
type boltElementParts struct {
	flags                     uint32
	pos, keyBytes, valueBytes uint64
	child                     uint64
}

func boltElementAt(kind uint16, at []byte) boltElementParts {
	word := func(i int) uint64 { return uint64(binary.NativeEndian.Uint32(at[i:])) }
	if kind == boltBranch {
		return boltElementParts{pos: word(0), keyBytes: word(4), child: binary.NativeEndian.Uint64(at[8:])}
	}
	return boltElementParts{flags: uint32(word(0)), pos: word(4), keyBytes: word(8), valueBytes: word(12)}
}
