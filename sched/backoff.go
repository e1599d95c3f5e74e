package sched

import (
	"encoding/binary"
	"math/bits"

	"github.com/rotasched/rota"
)

// BackoffMs returns how long, in ms, a job waits after its failed attempt number n (SPEC §9.2): base·factorⁿ, limited
// to the cap, spread by up to backoff_jitter in a way that depends only on job and attempt, rounded to the queue's
// unit. Frozen: entries call it when they are applied.
func BackoffMs(job rota.JobID, attempt int32, p *rota.QueuePolicy) int64 {
	v := min(p.BackoffCapMs, p.BackoffBaseMs)
	for i := int32(0); i < attempt && v < p.BackoffCapMs; i++ {
		next := min(p.BackoffCapMs, mulDiv(v, p.BackoffFactorPermille, 1000))
		if next == v {
			break // A step that rounds down to its start stays there for all further steps.
		}
		v = next
	}
	var m Message
	m.Text("AICF|retry")
	m.Text(string(job))
	m.Number(uint64(int64(attempt)))
	sum := m.Sum()
	u := binary.BigEndian.Uint64(sum[:8])
	most := 1000 * p.BackoffJitterPermille
	jitter := int64(u%uint64(2*most+1)) - most
	d := mulDiv(v, 1_000_000+jitter, 1_000_000)
	unit := max(p.BackoffUnitMs, 1)
	whole, rest := d/unit, d%unit
	if rest >= unit-rest {
		whole++
	}
	return whole * unit
}

// mulDiv returns floor(a·b/c) for a, b ≥ 0 and c > 0 with a 128-bit product. A quotient beyond int64 is limited to the
// largest int64.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return maxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, maxInt64))
}

const maxInt64 = 1<<63 - 1
