package rota

import (
	"bytes"
	"math"
	"strconv"
)

// Score is a ranking's number for a job at the moment of a decision: parts per
// billion in a market queue, the effective priority in thousandths in an aging
// one, the milliseconds waited in a fifo one. An adaptive queue's score is a
// double; it is carried as its bits, so that every node holds the same to the bit,
// and shown as the number.
type Score int64

// leastDouble is the smallest value that is interpreted as the bits of a double. The doubles from 1e-154 up lie above
// it and every adaptive score is greater than 1e-12; integer scores stay below it, for they end at MaxDuration in
// milliseconds times a million (SPEC §5.1).
const leastDouble Score = 1 << 61

// IsDouble reports whether the score is an adaptive queue's: the bits of a double.
func (s Score) IsDouble() bool { return s >= leastDouble }

// Double returns an adaptive queue's score; ok is false where the score is a whole
// number.
func (s Score) Double() (x float64, ok bool) {
	if !s.IsDouble() {
		return 0, false
	}
	return math.Float64frombits(uint64(s)), true
}

// Append writes the score as a number that JSON knows. A double always has a
// point or an exponent, a whole number never.
func (s Score) Append(b []byte) []byte {
	x, ok := s.Double()
	if !ok || math.IsInf(x, 0) || math.IsNaN(x) {
		return strconv.AppendInt(b, int64(s), 10)
	}
	from := len(b)
	b = strconv.AppendFloat(b, x, 'g', -1, 64)
	if !bytes.ContainsAny(b[from:], ".e") {
		b = append(b, ".0"...)
	}
	return b
}

// String shows the score as Append does.
func (s Score) String() string { return string(s.Append(nil)) }

// MarshalJSON implements json.Marshaler.
func (s Score) MarshalJSON() ([]byte, error) { return s.Append(nil), nil }

// UnmarshalJSON is the inverse of MarshalJSON.
func (s *Score) UnmarshalJSON(text []byte) error {
	if !bytes.ContainsAny(text, ".eE") {
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return Refusef(KindInvalid, "score", "score: got %.80q; use a number", text)
		}
		*s = Score(n)
		return nil
	}
	x, err := strconv.ParseFloat(string(text), 64)
	bits := Score(math.Float64bits(x))
	if err != nil || bits < leastDouble {
		return Refusef(KindInvalid, "score", "score: got %.80q; use a number, above 0 if it has a fraction", text)
	}
	*s = bits
	return nil
}
