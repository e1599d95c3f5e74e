package archive

import (
	"bytes"
	"encoding/binary"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

// Marks are stored in idsBucket in leaves, which together cover all possible ids. The key is the first id that a leaf
// covers. The value is: wholeLeaf, then each mark's id with its length (1) and the mark with its length (2), in the
// order of their ids, then the first id that it no longer covers (none: no such) and its length (2), CRC32C over key
// and all before (4). So a leaf alone shows whether an id has a mark, and if no leaf covers an id, its mark may be
// lost. That place then holds a partialLeaf, until a scrub has restored its missing marks.
//
// A key for each mark was rejected: finding its place, moving the later ones and writing it as an element of its own
// took half of a flush.
const (
	wholeLeaf   byte = 0xff
	partialLeaf byte = 0xfe
	// leafBytes bounds a leaf, so that two fit a page.
	leafBytes   = 1_900
	leafEndSize = 2 + 4
)

// firstID is before all ids; the first leaf's key.
var firstID = []byte{0}

// markRow is a mark by its job's id; as an edit, a nil mark deletes it.
type markRow struct{ id, mark []byte }

func (r *markRow) size() int { return 1 + len(r.id) + 2 + len(r.mark) }

// marks are those of an archive.
type marks struct {
	b *bbolt.Bucket
	// doubt makes every written leaf partial.
	doubt bool
}

// marksOf returns the marks in a transaction.
func marksOf(tx *bbolt.Tx) marks {
	return marks{b: tx.Bucket(idsBucket)}
}

// begin makes the one leaf of an archive without marks.
func (m marks) begin() error {
	if k, _ := m.b.Cursor().First(); k != nil {
		return nil
	}
	return m.put(leaf{key: firstID, whole: true}, nil, false)
}

// leaf covers the ids from key on and before upper; nil means unbounded.
type leaf struct {
	key, upper []byte
	// body has the marks, one after another.
	body []byte
	// whole means that no other id in its range has a mark; torn means that nothing there could be read.
	whole, torn bool
}

// below reports whether an id comes before a bound.
func below(id, bound []byte) bool { return bound == nil || bytes.Compare(id, bound) < 0 }

// leafOf finds the leaf that covers an id; a torn one if there is none.
func (m marks) leafOf(c *bbolt.Cursor, id []byte) leaf {
	k, v := c.Seek(id)
	behind := k
	switch {
	case k != nil && bytes.Equal(k, id):
		behind, _ = c.Next()
	case k == nil:
		k, v = c.Last()
	default:
		k, v = before(c, id)
	}
	if k == nil {
		return leaf{key: firstID, upper: behind, torn: true}
	}
	l, ok := readLeaf(k, v)
	switch {
	case !ok:
		return leaf{key: k, upper: behind, torn: true}
	case !below(id, l.upper):
		return leaf{key: l.upper, upper: behind, torn: true}
	case behind != nil && below(behind, l.upper):
		l.upper = behind // the next key is a wrong one
	}
	return l
}

// readLeaf verifies a leaf.
func readLeaf(key, value []byte) (l leaf, ok bool) {
	n := len(value) - leafEndSize
	if n < 1 || value[0] < partialLeaf || leafSum(key, value[:n+2]) != binary.BigEndian.Uint32(value[n+2:]) {
		return leaf{}, false
	}
	at := n - int(binary.BigEndian.Uint16(value[n:])) // not a byte: a damaged key may be longer than an id
	if at < 1 {
		return leaf{}, false
	}
	l = leaf{key: key, body: value[1:at], whole: value[0] == wholeLeaf}
	if at < n {
		l.upper = value[at:n:n]
	}
	return l, true
}

func leafSum(key, value []byte) uint32 { return updateSum(checksum(key), value) }

// appendRows appends its marks.
func (l *leaf) appendRows(rows []markRow) []markRow {
	for rest := l.body; len(rest) > 0; {
		row, size := firstMark(rest)
		if size == 0 || !below(row.id, l.upper) {
			break
		}
		rows, rest = append(rows, row), rest[size:]
	}
	return rows
}

// mark finds the mark of an id; nil for none.
func (l *leaf) mark(id []byte) []byte {
	for rest := l.body; len(rest) > 0; {
		row, size := firstMark(rest)
		if size == 0 {
			return nil
		}
		if bytes.Equal(row.id, id) {
			return row.mark
		}
		rest = rest[size:]
	}
	return nil
}

// firstMark reads one mark of a leaf; size is 0 if it cannot be read.
func firstMark(rest []byte) (row markRow, size int) {
	n := 1 + int(rest[0])
	if len(rest) < n+2 {
		return row, 0
	}
	size = n + 2 + int(binary.BigEndian.Uint16(rest[n:]))
	if len(rest) < size {
		return row, 0
	}
	return markRow{rest[1:n:n], rest[n+2 : size : size]}, size
}

// of finds the mark of a job. An error means that it may be lost.
func (m marks) of(id rota.JobID) (mark fsm.Mark, ok bool, err error) {
	if len(id) == 0 {
		return mark, false, nil
	}
	l := m.leafOf(m.b.Cursor(), []byte(id))
	found := l.mark([]byte(id))
	if found != nil {
		mark, ok = parseMark([]byte(id), found)
	}
	if !ok && (found != nil || !l.whole) {
		return mark, false, ErrMarksDamaged
	}
	return mark, ok, nil
}

// markCursor walks the marks in the order of their ids.
type markCursor struct {
	marks
	c *bbolt.Cursor
	// upper is where the next leaf begins.
	upper []byte
	rows  []markRow
	// lacks means that some of the marks passed may be lost.
	lacks bool
}

// after returns the first mark after an id.
func (m *markCursor) after(id []byte) (row markRow, ok bool) {
	if len(id) == 0 {
		id = firstID
	}
	m.load(id)
	for row, ok = m.step(); ok && bytes.Compare(row.id, id) <= 0; row, ok = m.step() {
	}
	return row, ok
}

func (m *markCursor) load(id []byte) {
	l := m.leafOf(m.c, id)
	m.rows, m.upper, m.lacks = l.appendRows(m.rows[:0]), l.upper, m.lacks || !l.whole
}

// step returns the next mark.
func (m *markCursor) step() (row markRow, ok bool) {
	for len(m.rows) == 0 {
		if m.upper == nil {
			return row, false
		}
		m.load(m.upper)
	}
	row, m.rows = m.rows[0], m.rows[1:]
	return row, true
}

// markSeq reads the number of a mark; false if parseMark would not accept it.
func markSeq(mark []byte) (seq uint64, ok bool) {
	if len(mark) < 9 {
		return 0, false
	}
	rest := mark[9:]
	for range 3 {
		if len(rest) == 0 || len(rest) < 1+int(rest[0]) {
			return 0, false
		}
		rest = rest[1+int(rest[0]):]
	}
	return binary.BigEndian.Uint64(mark), len(rest) == 0
}
