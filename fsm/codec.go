package fsm

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/rotasched/rota"
)

// encoder writes the canonical encoding of rows: what the digest hashes and
// what snapshots carry. Integers are varints, strings length-prefixed; there is
// exactly one encoding of a row. Protobuf was refused here, as it promises no
// canonical form.
type encoder struct {
	b []byte
	// values is room for a policy's.
	values []int64
	// said, where it is made, remembers the policy that was written last.
	said *saidPolicy
}

// uint writes a varint, as binary.AppendUvarint does: most are of one byte, and room is
// asked for once for the others.
func (e *encoder) uint(v uint64) {
	if v < 0x80 {
		e.b = append(e.b, byte(v))
		return
	}
	e.long(v)
}

func (e *encoder) long(v uint64) {
	b, n := slices.Grow(e.b, binary.MaxVarintLen64), len(e.b)
	b = b[:n+binary.MaxVarintLen64]
	for ; v >= 0x80; v >>= 7 {
		b[n] = byte(v) | 0x80
		n++
	}
	b[n] = byte(v)
	e.b = b[:n+1]
}

func (e *encoder) int(v int64) { e.uint(uint64(v)<<1 ^ uint64(v>>63)) }

func (e *encoder) bool(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

// flags writes three truth values in a byte, which is that of bool where the last two are false.
func (e *encoder) flags(first, second, third bool) {
	b := byte(0)
	if first {
		b |= 1
	}
	if second {
		b |= 2
	}
	if third {
		b |= 4
	}
	e.b = append(e.b, b)
}

func (e *encoder) bytes(v []byte) {
	e.uint(uint64(len(v)))
	e.b = append(e.b, v...)
}

func (e *encoder) str(v string) {
	e.uint(uint64(len(v)))
	e.b = append(e.b, v...)
}

func (e *encoder) strs(v []string) {
	e.uint(uint64(len(v)))
	for _, s := range v {
		e.str(s)
	}
}

// moment writes a clock and how far the date is ahead of it.
func (e *encoder) moment(m rota.Moment) {
	e.int(int64(m.Clock))
	e.int(int64(m.Date) - int64(m.Clock))
}

func (e *encoder) digest(d rota.Digest) {
	e.b = binary.BigEndian.AppendUint64(e.b, d.Hi)
	e.b = binary.BigEndian.AppendUint64(e.b, d.Lo)
}

func (e *encoder) eventID(id rota.EventID) {
	e.uint(id.Incarnation)
	e.uint(uint64(id.Index))
	e.uint(uint64(id.Seq))
}

func (e *encoder) token(t rota.Token) {
	e.uint(t.Incarnation)
	e.uint(t.Counter)
}

// errRecord is what every broken record reads as.
var errRecord = errors.New("record ends early or holds what no encoder writes")

// decoder reads what encoder wrote. The first fault sticks in err; every later
// read gives zero values.
type decoder struct {
	b   []byte
	err error
	// specs lets the specs of many records share; nil where one is read by itself.
	specs *specs
}

func (d *decoder) fail() {
	d.err, d.b = errRecord, nil
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// enum reads a number of which most is the greatest that this binary knows.
func (d *decoder) enum(most uint64) uint64 {
	v := d.uint()
	if v > most {
		d.fail()
		return 0
	}
	return v
}

// count reads the length of a list of at most so many.
func (d *decoder) count(most uint64) uint64 {
	n := d.enum(most)
	if n > uint64(len(d.b)) { // each takes a byte at least
		d.fail()
		return 0
	}
	return n
}

func (d *decoder) bool() bool {
	b := d.raw(1)
	if len(b) != 1 || b[0] > 1 {
		d.fail()
		return false
	}
	return b[0] == 1
}

func (d *decoder) flags() (first, second, third bool) {
	b := d.raw(1)
	if len(b) != 1 || b[0] > 7 {
		d.fail()
		return false, false, false
	}
	return b[0]&1 != 0, b[0]&2 != 0, b[0]&4 != 0
}

func (d *decoder) raw(n uint64) []byte {
	if d.err != nil || n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

// bytes returns nil for an empty slice, as the encoder does not tell them apart.
func (d *decoder) bytes() []byte {
	v := d.raw(d.uint())
	if len(v) == 0 {
		return nil
	}
	return append([]byte(nil), v...)
}

func (d *decoder) str() string { return string(d.raw(d.uint())) }

func (d *decoder) strs() []string {
	n := d.uint()
	if n > uint64(len(d.b)) { // each takes a byte at least
		d.fail()
		return nil
	}
	var v []string
	for range n {
		v = append(v, d.str())
	}
	return v
}

func (d *decoder) moment() rota.Moment {
	c := d.int()
	return rota.Moment{Clock: rota.Clock(c), Date: rota.Date(c + d.int())}
}

func (d *decoder) digest() rota.Digest {
	b := d.raw(16)
	if len(b) != 16 {
		return rota.Digest{}
	}
	return rota.Digest{Hi: binary.BigEndian.Uint64(b), Lo: binary.BigEndian.Uint64(b[8:])}
}

func (d *decoder) token() rota.Token { return rota.Token{Incarnation: d.uint(), Counter: d.uint()} }

func (d *decoder) eventID() rota.EventID {
	return rota.EventID{Incarnation: d.uint(), Index: rota.Index(d.uint()), Seq: uint32(d.uint())}
}

func (d *decoder) leaseID() (id rota.LeaseID) {
	b := d.raw(32)
	copy(id[:], b)
	return id
}

// done reports whether everything was read and nothing is left over.
func (d *decoder) done() error {
	if d.err == nil && len(d.b) != 0 {
		d.fail()
	}
	return d.err
}
