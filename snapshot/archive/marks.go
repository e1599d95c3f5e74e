package archive

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// edit writes marks, and deletes those whose edit has none. Edits come in the order of their ids, one for each id; if a
// mark exists, takes reports whether the edit applies.
func (m marks) edit(edits []markRow, takes func(at int, old []byte) bool) error {
	var rows []markRow
	merged := make([]markRow, 0, len(edits)) // growing ids all go into the last leaf
	for at := 0; at < len(edits); {
		l := m.leafOf(m.b.Cursor(), edits[at].id)
		rows = l.appendRows(rows[:0])
		old := rows
		merged = merged[:0]
		appends := false
		for ; at < len(edits) && below(edits[at].id, l.upper); at++ {
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
		if err := m.put(l, append(merged, old...), appends); err != nil {
			return err
		}
	}
	return nil
}

// put writes the marks of a leaf as one or several leaves: full ones if marks arrive at their end, as they will again,
// otherwise as even as possible.
func (m marks) put(l leaf, rows []markRow, appends bool) error {
	l.whole = l.whole && !m.doubt
	if len(rows) == 0 && l.whole && !bytes.Equal(l.key, firstID) {
		return m.absorb(l)
	}
	room := leafBytes - 1 - len(l.upper) - leafEndSize
	most := room
	if !appends {
		size := 0
		for i := range rows {
			size += rows[i].size()
		}
		parts := (size + room - 1) / room
		most = size/max(1, parts) + 1
	}
	for key := l.key; ; {
		n, size := 0, 0
		for n < len(rows) && (n == 0 || size < most && size+rows[n].size() <= room) {
			size += rows[n].size()
			n++
		}
		upper := l.upper
		if n < len(rows) {
			upper = rows[n].id
		}
		if err := m.b.Put(bytes.Clone(key), encodeLeaf(key, upper, rows[:n], l.whole, size)); err != nil {
			return err
		}
		if rows = rows[n:]; len(rows) == 0 {
			return nil
		}
		key = upper
	}
}

func encodeLeaf(key, upper []byte, rows []markRow, whole bool, size int) []byte {
	value := append(make([]byte, 0, 1+size+len(upper)+leafEndSize), partialLeaf)
	if whole {
		value[0] = wholeLeaf
	}
	for _, r := range rows {
		value = append(append(value, byte(len(r.id))), r.id...)
		value = append(binary.BigEndian.AppendUint16(value, uint16(len(r.mark))), r.mark...)
	}
	value = binary.BigEndian.AppendUint16(append(value, upper...), uint16(len(upper)))
	return binary.BigEndian.AppendUint32(value, leafSum(key, value))
}

// absorb makes the leaf before one without marks cover its ids too.
func (m marks) absorb(l leaf) error {
	key := bytes.Clone(l.key)
	c := m.b.Cursor()
	k, _ := c.Seek(key)
	var v []byte
	if k == nil {
		k, v = c.Last()
	} else {
		k, v = before(c, key)
	}
	into := leaf{key: firstID}
	if k != nil {
		var ok bool
		if into, ok = readLeaf(k, v); !ok || !bytes.Equal(into.upper, key) {
			// It is damaged, and must not be overwritten before a scrub has reported it.
			return m.b.Put(key, encodeLeaf(key, l.upper, nil, l.whole, 0))
		}
	}
	rows := into.appendRows(nil)
	if err := m.b.Delete(key); err != nil {
		return err
	}
	into.upper = l.upper
	return m.put(into, rows, false)
}

// drop deletes the marks of ids, in any order, for which takes returns true.
func (m marks) drop(ids [][]byte, takes func(old []byte) bool) error {
	slices.SortFunc(ids, bytes.Compare)
	var edits []markRow
	for _, id := range slices.CompactFunc(ids, bytes.Equal) {
		if len(id) > 0 {
			edits = append(edits, markRow{id: id})
		}
	}
	return m.edit(edits, func(_ int, old []byte) bool { return takes(old) })
}
