package state

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/rotasched/rota"
)

// Encoder writes the canonical encoding of rows, which the digest hashes and snapshots carry. Integers are varints,
// strings length-prefixed; a row has exactly one encoding. Protobuf was rejected here, as it promises no canonical
// form.
type Encoder struct {
	B []byte
	// values is a buffer for a policy's values.
	values []int64
	// Said, if set, caches the policy that was written last.
	Said *SaidPolicy
}

// Uint writes a varint like binary.AppendUvarint. Most take one byte; the buffer is grown once for the others.
func (e *Encoder) Uint(v uint64) {
	if v < 0x80 {
		e.B = append(e.B, byte(v))
		return
	}
	e.long(v)
}

func (e *Encoder) long(v uint64) {
	b, n := slices.Grow(e.B, binary.MaxVarintLen64), len(e.B)
	b = b[:n+binary.MaxVarintLen64]
	for ; v >= 0x80; v >>= 7 {
		b[n] = byte(v) | 0x80
		n++
	}
	b[n] = byte(v)
	e.B = b[:n+1]
}

// Int appends a number of either sign, zigzag coded.
func (e *Encoder) Int(v int64) { e.Uint(uint64(v)<<1 ^ uint64(v>>63)) }

// Bool appends one byte, 0 or 1.
func (e *Encoder) Bool(v bool) {
	if v {
		e.B = append(e.B, 1)
	} else {
		e.B = append(e.B, 0)
	}
}

// flags writes three booleans in one byte. The byte equals that of Bool if the last two are false.
func (e *Encoder) flags(set ...bool) {
	b := byte(0)
	for i, is := range set {
		if is {
			b |= 1 << i
		}
	}
	e.B = append(e.B, b)
}

func (e *Encoder) bytes(v []byte) {
	e.Uint(uint64(len(v)))
	e.B = append(e.B, v...)
}

// Str appends a text preceded by its length.
func (e *Encoder) Str(v string) {
	e.Uint(uint64(len(v)))
	e.B = append(e.B, v...)
}

func (e *Encoder) strs(v []string) {
	e.Uint(uint64(len(v)))
	for _, s := range v {
		e.Str(s)
	}
}

// Moment writes a clock time and how far the date is ahead of it.
func (e *Encoder) Moment(m rota.Moment) {
	e.Int(int64(m.Clock))
	e.Int(int64(m.Date) - int64(m.Clock))
}

func (e *Encoder) digest(d rota.Digest) {
	e.B = binary.BigEndian.AppendUint64(e.B, d.Hi)
	e.B = binary.BigEndian.AppendUint64(e.B, d.Lo)
}

func (e *Encoder) eventID(id rota.EventID) {
	e.Uint(id.Incarnation)
	e.Uint(uint64(id.Index))
	e.Uint(uint64(id.Seq))
}

func (e *Encoder) token(t rota.Token) {
	e.Uint(t.Incarnation)
	e.Uint(t.Counter)
}

// errRecord is the error for every broken record.
var errRecord = errors.New("record ends early or holds what no encoder writes")

// Decoder reads what Encoder wrote. The first fault is kept in err; every later read returns zero values.
type Decoder struct {
	B   []byte
	Err error
	// Specs lets the specs of many records share storage; nil if a record is read alone.
	Specs *Specs
}

// Fail marks the record as damaged and drops the rest of it.
func (d *Decoder) Fail() {
	d.Err, d.B = errRecord, nil
}

// Uint reads what Encoder.Uint appended.
func (d *Decoder) Uint() uint64 {
	v, n := binary.Uvarint(d.B)
	if n <= 0 {
		d.Fail()
		return 0
	}
	d.B = d.B[n:]
	return v
}

// Int reads what Encoder.Int appended.
func (d *Decoder) Int() int64 {
	v, n := binary.Varint(d.B)
	if n <= 0 {
		d.Fail()
		return 0
	}
	d.B = d.B[n:]
	return v
}

// Enum reads a number; most is the greatest that this binary knows.
func (d *Decoder) Enum(most uint64) uint64 {
	v := d.Uint()
	if v > most {
		d.Fail()
		return 0
	}
	return v
}

// Count reads the length of a list with at most `most` elements.
func (d *Decoder) Count(most uint64) uint64 {
	n := d.Enum(most)
	if n > uint64(len(d.B)) { // each takes at least one byte
		d.Fail()
		return 0
	}
	return n
}

// Bool reads one byte and fails on anything but 0 and 1.
func (d *Decoder) Bool() bool {
	b := d.raw(1)
	if len(b) != 1 || b[0] > 1 {
		d.Fail()
		return false
	}
	return b[0] == 1
}

func (d *Decoder) flags(set []bool) {
	b := d.raw(1)
	if len(b) != 1 || b[0]>>len(set) != 0 {
		d.Fail()
		return
	}
	for i := range set {
		set[i] = b[0]>>i&1 != 0
	}
}

func (d *Decoder) raw(n uint64) []byte {
	if d.Err != nil || n > uint64(len(d.B)) {
		d.Fail()
		return nil
	}
	v := d.B[:n:n]
	d.B = d.B[n:]
	return v
}

// bytes returns nil for an empty slice, as the encoder does not distinguish them.
func (d *Decoder) bytes() []byte {
	v := d.raw(d.Uint())
	if len(v) == 0 {
		return nil
	}
	return append([]byte(nil), v...)
}

// Str reads a text.
func (d *Decoder) Str() string { return string(d.raw(d.Uint())) }

func (d *Decoder) strs() []string {
	n := d.Uint()
	if n > uint64(len(d.B)) { // each takes at least one byte
		d.Fail()
		return nil
	}
	var v []string
	for range n {
		v = append(v, d.Str())
	}
	return v
}

// Moment reads a clock time with its date.
func (d *Decoder) Moment() rota.Moment {
	c := d.Int()
	return rota.Moment{Clock: rota.Clock(c), Date: rota.Date(c + d.Int())}
}

func (d *Decoder) digest() rota.Digest {
	b := d.raw(16)
	if len(b) != 16 {
		return rota.Digest{}
	}
	return rota.Digest{Hi: binary.BigEndian.Uint64(b), Lo: binary.BigEndian.Uint64(b[8:])}
}

func (d *Decoder) token() rota.Token { return rota.Token{Incarnation: d.Uint(), Counter: d.Uint()} }

func (d *Decoder) eventID() rota.EventID {
	return rota.EventID{Incarnation: d.Uint(), Index: rota.Index(d.Uint()), Seq: uint32(d.Uint())}
}

func (d *Decoder) leaseID() (id rota.LeaseID) {
	b := d.raw(32)
	copy(id[:], b)
	return id
}

// Done returns an error unless everything was read and nothing is left over.
func (d *Decoder) Done() error {
	if d.Err == nil && len(d.B) != 0 {
		d.Fail()
	}
	return d.Err
}
