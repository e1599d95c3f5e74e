package fsm

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/rotasched/rota/fsm/internal/state"
)

// TestEncoderNumbers checks that a number has one encoding, that of package binary.
func TestEncoderNumbers(t *testing.T) {
	t.Parallel()
	var e state.Encoder
	var want []byte
	number := func(v uint64) {
		e.Uint(v)
		e.Int(int64(v))
		want = binary.AppendVarint(binary.AppendUvarint(want, v), int64(v))
	}
	for bit := range 64 {
		for _, v := range []uint64{1<<bit - 1, 1 << bit, ^uint64(0) << bit} {
			number(v)
		}
	}
	number(math.MaxUint64)
	if string(e.B) != string(want) {
		t.Fatalf("wrote %x, want %x", e.B, want)
	}
}
