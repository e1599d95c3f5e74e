package state

import (
	"cmp"
	"math/big"
	"math/bits"
)

// Int128 is a signed integer of 128 bits. Debts of weighted rates are products of an amount and a period: at most 87 bits
// each, and sums of them stay far below 127.
type Int128 struct {
	Hi int64
	Lo uint64
}

// Product returns a · b, for numbers that are not negative.
func Product(a, b int64) Int128 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return Int128{int64(hi), lo}
}

// Plus returns w + v.
func (w Int128) Plus(v Int128) Int128 {
	lo, carry := bits.Add64(w.Lo, v.Lo, 0)
	hi, _ := bits.Add64(uint64(w.Hi), uint64(v.Hi), carry)
	return Int128{int64(hi), lo}
}

// Minus returns w − v.
func (w Int128) Minus(v Int128) Int128 {
	lo, borrow := bits.Sub64(w.Lo, v.Lo, 0)
	hi, _ := bits.Sub64(uint64(w.Hi), uint64(v.Hi), borrow)
	return Int128{int64(hi), lo}
}

// Compare orders two numbers as cmp.Compare does.
func (w Int128) Compare(v Int128) int {
	if w.Hi != v.Hi {
		return cmp.Compare(w.Hi, v.Hi)
	}
	return cmp.Compare(w.Lo, v.Lo)
}

// Max returns the greater of two numbers.
func (w Int128) Max(v Int128) Int128 {
	if w.Compare(v) < 0 {
		return v
	}
	return w
}

// IsZero reports whether w is 0.
func (w Int128) IsZero() bool { return w == Int128{} }

// Quotient returns w ÷ by rounded up, for a w that is not negative, and at most limit.
func (w Int128) Quotient(by, limit int64) int64 {
	if uint64(w.Hi) >= uint64(by) {
		return limit
	}
	q, rest := bits.Div64(uint64(w.Hi), w.Lo, uint64(by))
	if q >= uint64(limit) {
		return limit
	}
	if rest > 0 {
		q++
	}
	return int64(q)
}

// Scaled returns w · to ÷ from, rounded up.
func (w Int128) Scaled(to, from int64) Int128 {
	n := new(big.Int).Lsh(big.NewInt(w.Hi), 64)
	n.Add(n, new(big.Int).SetUint64(w.Lo)).Mul(n, big.NewInt(to))
	q, rest := n.DivMod(n, big.NewInt(from), new(big.Int)) // rounds down, as from is positive
	if rest.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	lo := new(big.Int).And(q, new(big.Int).SetUint64(1<<64-1)).Uint64()
	return Int128{new(big.Int).Rsh(q, 64).Int64(), lo}
}

// Int128 appends a number of either sign.
func (e *Encoder) Int128(w Int128) {
	e.Int(w.Hi)
	e.Uint(w.Lo)
}

// Int128 reads what Encoder.Int128 appended.
func (d *Decoder) Int128() Int128 { return Int128{d.Int(), d.Uint()} }
