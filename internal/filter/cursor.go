package filter

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/zeebo/xxh3"

	"github.com/rotasched/rota"
)

// Cursor is a position in a list of jobs, with the moment of the list: jobs that got a number after that are not part
// of it (SPEC §21.6).
type Cursor struct {
	// Part is the part of the list, of those that its maker counts.
	Part byte
	// Clock, Jobs and Ends are the clock and the highest numbers of submissions and of ends as
	// the list began.
	Clock      rota.Clock
	Jobs, Ends uint64
	// At and Sub are the place in the part.
	At  uint64
	Sub uint32
}

// Origin is the scope of numbers: a cluster as it is between two restores.
type Origin struct {
	Cluster     rota.ClusterID
	Incarnation uint64
}

// cursorBytes are a cursor's: part, clock, jobs, ends, at, sub, the sums of its origin and of
// its filter, and the checksum over them all.
const cursorBytes = 1 + 4*8 + 4 + 2*8 + 4

// maxCursor bounds the text of a cursor.
const maxCursor = (cursorBytes*8 + 5) / 6

func (o *Origin) sum() uint64 {
	return xxh3.Hash(binary.BigEndian.AppendUint64([]byte(o.Cluster), o.Incarnation))
}

// sumOf stands for what a list selects: another page of it may count, or be of another length.
func sumOf(f *rota.JobFilter) uint64 {
	var b []byte
	for _, s := range [...]string{string(f.Queue), string(f.Tenant), string(f.Type), f.Where} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	return xxh3.Hash(append(b, byte(f.State)))
}

// Text returns the cursor as a caller of the filter hands it back.
func (c *Cursor) Text(o Origin, f *rota.JobFilter) string {
	b := append(make([]byte, 0, cursorBytes), c.Part)
	for _, n := range [...]uint64{uint64(c.Clock), c.Jobs, c.Ends, c.At} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	b = binary.BigEndian.AppendUint32(b, c.Sub)
	b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, o.sum()), sumOf(f))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return base64.RawURLEncoding.EncodeToString(b)
}

// ReadCursor reads what Text returned, for the same filter in the same cluster. Anything else is
// refused.
func ReadCursor(text string, o Origin, f *rota.JobFilter) (c Cursor, err error) {
	var b []byte
	if len(text) == maxCursor {
		b, err = base64.RawURLEncoding.Strict().DecodeString(text)
	}
	if err != nil || len(b) != cursorBytes ||
		crc32.ChecksumIEEE(b[:cursorBytes-4]) != binary.BigEndian.Uint32(b[cursorBytes-4:]) {
		return c, rota.Refusef(rota.KindInvalid, "cursor",
			"cursor %.100q is not one that a page returned: hand back a page's next_cursor as it is", text)
	}
	number := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	switch {
	case number(37) != o.sum():
		return c, rota.Refusef(rota.KindInvalid, "cursor",
			"the cursor is of another cluster, or from before it was restored: list from the "+
				"beginning, without a cursor")
	case number(45) != sumOf(f):
		return c, rota.Refusef(rota.KindInvalid, "cursor",
			"the cursor is of another filter: go on with the filter that it is of, or list "+
				"from the beginning, without a cursor")
	}
	return Cursor{Part: b[0], Clock: rota.Clock(number(1)), Jobs: number(9), Ends: number(17), At: number(25),
		Sub: binary.BigEndian.Uint32(b[33:])}, nil
}
