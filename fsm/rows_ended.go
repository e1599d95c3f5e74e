package fsm

import "encoding/binary"

// deletedRow is a range of numbers of ended jobs that were deleted (SPEC §21.3): no archive
// shows them again. Ranges neither overlap nor touch.
type deletedRow struct {
	rowMeta
	from, to uint64
}

// deletedKey orders ranges by their last number.
func deletedKey(to uint64) string { return string(binary.BigEndian.AppendUint64(nil, to)) }

func (r *deletedRow) canonical(e *encoder) {
	e.uint(r.from)
	e.uint(r.to)
}
