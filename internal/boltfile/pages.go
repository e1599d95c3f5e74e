package boltfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"runtime/debug"

	"github.com/rotasched/rota"
)

// The layout of a bbolt file (its internal/common: page.go, meta.go, inode.go).
const (
	magic        = 0xED0CDAED
	version      = 2
	pageHeader   = 16
	headBytes    = 64 // of a head, with its checksum in the last 8
	elementBytes = 16
	branch       = 0x01
	leaf         = 0x02
	bucket       = 0x01
	pageMin      = 512
	pageMax      = 1 << 16
	runMax       = 1 << 20 // pages in one run: every entry is far smaller
	bucketBytes  = 16
	depthMax     = 32
)

// walk checks the tree of a bbolt file page by page. bbolt's own check runs on a goroutine of its own, where a panic
// over damage ends the process, and only the two heads have a checksum: a flipped bit in a page's header can remove the
// newest entries of the log without a trace. bbolt writes pages without gaps, so a header can be compared with the
// rest.
type walk struct {
	path     string
	words    func(path, what string) *rota.Error // of a refusal
	file     io.ReaderAt
	pageSize uint64
	pages    uint64 // number of pages in use
}

// Check checks the heads and every page in use. words returns the refusal.
func Check(path string, words func(path, what string) *rota.Error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer file.Close()
	w := &walk{path: path, words: words, file: file}
	root, err := w.heads()
	if err != nil {
		return err
	}
	// bbolt lets the file grow before it writes a head, so the file has every page in use. A shorter one may still have
	// all that the tree refers to; but bbolt also reads free pages, and a read behind the end ends the process.
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("size of %s: %w", path, err)
	}
	if info.Size() < int64(w.pages*w.pageSize) {
		return w.damaged("%d pages of %d bytes are in use, but the file has %d bytes", w.pages, w.pageSize, info.Size())
	}
	return w.page(root, nil, nil, 0)
}

// heads checks both heads and returns the root of the newest. If the newest is damaged bbolt uses the other one, which
// silently undoes the last transaction: a vote, or an entry that this node has acknowledged. A torn write cannot cause
// that, because a head fits a sector.
func (w *walk) heads() (root uint64, err error) {
	newest := uint64(0)
	at := int64(0)
	for i := range 2 {
		var page [pageHeader + headBytes]byte
		if _, err := w.file.ReadAt(page[:], at); err != nil {
			return 0, w.damaged("head %d cannot be read (%v)", i, err)
		}
		head := page[pageHeader:]
		sum := fnv.New64a()
		sum.Write(head[:headBytes-8])
		size := uint64(binary.NativeEndian.Uint32(head[8:]))
		if binary.NativeEndian.Uint32(head) != magic || binary.NativeEndian.Uint32(head[4:]) != version ||
			binary.NativeEndian.Uint64(head[headBytes-8:]) != sum.Sum64() ||
			size < pageMin || size > pageMax {
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

func (w *walk) damaged(format string, args ...any) *rota.Error {
	return w.words(w.path, fmt.Sprintf(format, args...))
}

// page checks a page and all pages below it. Its keys must begin with low and be below high; nil means no bound. bbolt
// finds a page in its parent by its first key: with a different one it would write a second reference to it, and end
// the process later.
func (w *walk) page(id uint64, low, high []byte, depth int) error {
	if id < 2 || id >= w.pages || depth > depthMax {
		return w.damaged("page %d is referred to, %d are in use", id, w.pages)
	}
	var head [pageHeader]byte
	if _, err := w.file.ReadAt(head[:], int64(id*w.pageSize)); err != nil {
		return w.damaged("page %d cannot be read (%v)", id, err)
	}
	run := uint64(binary.NativeEndian.Uint32(head[12:])) + 1
	if binary.NativeEndian.Uint64(head[:]) != id || run > runMax || id+run > w.pages {
		return w.damaged("page %d does not know itself", id)
	}
	page := make([]byte, run*w.pageSize)
	if _, err := w.file.ReadAt(page, int64(id*w.pageSize)); err != nil {
		return w.damaged("page %d cannot be read (%v)", id, err)
	}
	used, err := w.elements(id, page, low, high, depth)
	// bbolt rounds up; before its version 1.4 an exact multiple got one more page.
	if err == nil && run != (used+w.pageSize-1)/w.pageSize && run != used/w.pageSize+1 {
		err = w.damaged("page %d has %d bytes but a run of %d", id, used, run)
	}
	return err
}

// elements checks the elements of a page, or of a bucket kept within another page, and returns the number of used
// bytes.
func (w *walk) elements(id uint64, page, low, high []byte, depth int) (used uint64, err error) {
	kind := binary.NativeEndian.Uint16(page[8:])
	count := uint64(binary.NativeEndian.Uint16(page[10:]))
	if kind != branch && kind != leaf || kind == branch && count == 0 {
		return 0, w.damaged("page %d is of kind %#x with %d elements", id, kind, count)
	}
	end := pageHeader + count*elementBytes // end of the bytes counted so far
	if end > uint64(len(page)) {
		return 0, w.damaged("page %d has %d elements", id, count)
	}
	var former []byte
	children := make([]uint64, 0, count)
	keys := make([][]byte, 0, count)
	for i := range count {
		at := pageHeader + i*elementBytes
		element := elementAt(kind, page[at:])
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
		case element.flags > bucket:
			return 0, w.damaged("element %d of page %d has flags %#x", i, id, element.flags)
		case element.flags == bucket:
			if err := w.bucket(id, value, depth); err != nil {
				return 0, err
			}
		}
	}
	if kind == leaf {
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
func (w *walk) bucket(id uint64, value []byte, depth int) error {
	if len(value) < bucketBytes {
		return w.damaged("page %d holds a bucket of %d bytes", id, len(value))
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return w.page(root, nil, nil, depth+1)
	}
	if len(value) < bucketBytes+pageHeader {
		return w.damaged("page %d holds a bucket of %d bytes", id, len(value))
	}
	_, err := w.elements(id, value[bucketBytes:], nil, nil, depth+1)
	return err
}

// element is an element's header: of a leaf, or of a branch.
type element struct {
	flags                     uint32
	pos, keyBytes, valueBytes uint64
	child                     uint64
}

func elementAt(kind uint16, at []byte) element {
	word := func(i int) uint64 { return uint64(binary.NativeEndian.Uint32(at[i:])) }
	if kind == branch {
		return element{pos: word(0), keyBytes: word(4), child: binary.NativeEndian.Uint64(at[8:])}
	}
	return element{flags: uint32(word(0)), pos: word(4), keyBytes: word(8), valueBytes: word(12)}
}

// FaultsPanic makes faults of a memory map panics on this goroutine, which can be
// recovered from, until restore is called.
func FaultsPanic() (restore func()) {
	former := debug.SetPanicOnFault(true)
	return func() { debug.SetPanicOnFault(former) }
}
