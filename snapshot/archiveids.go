package snapshot

import (
	"bytes"
	"encoding/binary"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota/fsm"
)

// Marks lie in archiveIDs in leaves: the first one's id → manyMarks, then each mark's id
// with its length (1) and the mark with its length (2), in the order of their ids. A
// leaf's marks come before the next leaf's. One alone stands plain, as all once did.
//
// A key for each mark was refused: to find its place, to move what comes after it and to
// write it as an element of its own took half of a flush.
const (
	// manyMarks cannot be the first byte of a number.
	manyMarks byte = 0xff
	// leafBytes bounds a leaf, so that two fit a page.
	leafBytes = 1_900
)

// markRow is a mark by its job's id; none takes it away, where it is an edit.
type markRow struct{ id, mark []byte }

func (r *markRow) size() int { return 1 + len(r.id) + 2 + len(r.mark) }

// appendLeaf appends the marks of a leaf, of which those that do not come after each other,
// and between key and next, are damage. So is what cannot be read, with all behind it:
// marks are verified by their records.
func appendLeaf(rows []markRow, key, value, next []byte) []markRow {
	if len(value) == 0 || value[0] != manyMarks {
		return append(rows, markRow{key, value})
	}
	var before []byte
	for rest := value[1:]; len(rest) > 0; {
		row, size := firstMark(rest)
		if size == 0 {
			break
		}
		rest = rest[size:]
		if bytes.Compare(row.id, key) >= 0 && bytes.Compare(row.id, before) > 0 && (next == nil || bytes.Compare(row.id, next) < 0) {
			rows, before = append(rows, row), row.id
		}
	}
	return rows
}

// firstMark reads one mark of a leaf; size is 0 where it cannot be read.
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

// leafOf finds the leaf in whose range an id is, and the first key behind it: nil for
// none.
func leafOf(c *bbolt.Cursor, id []byte) (key, value, next []byte) {
	if key, value = c.Seek(id); bytes.Equal(key, id) {
		next, _ = c.Next()
		return key, value, next
	}
	if next = key; next == nil {
		key, value = c.Last()
	} else {
		key, value = c.Prev()
	}
	return key, value, next
}

// markOfID finds the mark of a job; nil for none.
func markOfID(b *bbolt.Bucket, id []byte) []byte {
	if len(id) == 0 {
		return nil
	}
	key, value, _ := leafOf(b.Cursor(), id)
	if len(value) == 0 || value[0] != manyMarks {
		if bytes.Equal(key, id) {
			return value
		}
		return nil
	}
	for rest := value[1:]; len(rest) > 0; {
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

// editMarks writes marks, and takes away those whose edit has none. Edits come in the
// order of their ids, one for an id; where there is a mark already, takes says whether
// the edit holds.
func editMarks(b *bbolt.Bucket, edits []markRow, takes func(at int, old []byte) bool) error {
	var rows, merged []markRow
	for at := 0; at < len(edits); {
		key, value, next := leafOf(b.Cursor(), edits[at].id)
		rows = rows[:0]
		if key != nil {
			rows = appendLeaf(rows, key, value, next)
		}
		old := rows
		merged = merged[:0]
		appends := false
		for ; at < len(edits) && (next == nil || bytes.Compare(edits[at].id, next) < 0); at++ {
			e := edits[at]
			for len(old) > 0 && bytes.Compare(old[0].id, e.id) < 0 {
				merged, old = append(merged, old[0]), old[1:]
			}
			if appends = len(old) == 0; !appends && bytes.Equal(old[0].id, e.id) {
				if !takes(at, old[0].mark) {
					e.mark = old[0].mark
				}
				old = old[1:]
			}
			if e.mark != nil {
				merged = append(merged, e)
			}
		}
		merged = append(merged, old...)
		if key != nil && (len(merged) == 0 || !bytes.Equal(key, merged[0].id)) {
			if err := b.Delete(bytes.Clone(key)); err != nil {
				return err
			}
		}
		if err := putLeaves(b, merged, appends); err != nil {
			return err
		}
	}
	return nil
}

// putLeaves writes marks as leaves: full ones where marks come at their end, as they
// will again, else as even ones as can be.
func putLeaves(b *bbolt.Bucket, rows []markRow, appends bool) error {
	most := leafBytes
	if !appends {
		size := 0
		for i := range rows {
			size += rows[i].size()
		}
		parts := (size + leafBytes - 1) / leafBytes
		most = size/max(1, parts) + 1
	}
	for len(rows) > 0 {
		n, size := 1, 1+rows[0].size()
		for n < len(rows) && size < most && size+rows[n].size() <= leafBytes {
			size += rows[n].size()
			n++
		}
		value := bytes.Clone(rows[0].mark)
		if n > 1 {
			value = append(make([]byte, 0, size), manyMarks)
			for _, r := range rows[:n] {
				value = append(append(value, byte(len(r.id))), r.id...)
				value = append(binary.BigEndian.AppendUint16(value, uint16(len(r.mark))), r.mark...)
			}
		}
		if err := b.Put(rows[0].id, value); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// dropMarks takes away the marks of ids, in any order, that takes says of.
func dropMarks(b *bbolt.Bucket, ids [][]byte, takes func(old []byte) bool) error {
	slices.SortFunc(ids, bytes.Compare)
	var edits []markRow
	for _, id := range slices.CompactFunc(ids, bytes.Equal) {
		if len(id) > 0 {
			edits = append(edits, markRow{id: id})
		}
	}
	return editMarks(b, edits, func(_ int, old []byte) bool { return takes(old) })
}

// markCursor walks the marks in the order of their ids.
type markCursor struct {
	c    *bbolt.Cursor
	next []byte
	rows []markRow
}

// after gives the first mark behind an id.
func (m *markCursor) after(id []byte) (row markRow, ok bool) {
	if key, value, next := leafOf(m.c, id); key == nil {
		m.rows, m.next = m.rows[:0], next
	} else {
		m.rows, m.next = appendLeaf(m.rows[:0], key, value, next), next
	}
	for row, ok = m.step(); ok && bytes.Compare(row.id, id) <= 0; row, ok = m.step() {
	}
	return row, ok
}

// step gives the next mark.
func (m *markCursor) step() (row markRow, ok bool) {
	for len(m.rows) == 0 {
		if m.next == nil {
			return row, false
		}
		key, value := m.c.Seek(m.next)
		m.next, _ = m.c.Next()
		m.rows = appendLeaf(m.rows[:0], key, value, m.next)
	}
	row, m.rows = m.rows[0], m.rows[1:]
	return row, true
}

// markSeq reads the number of a mark; false where parseMark would not read it.
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

// parseMarkOf reads the mark of a job.
func parseMarkOf(b *bbolt.Bucket, id []byte) (fsm.Mark, bool) { return parseMark(id, markOfID(b, id)) }
