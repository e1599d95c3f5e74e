package sched

import "cmp"

// Load is what a lease uses of its worker while open: millicores, bytes of memory, bytes of I/O per second. In a Load
// that states a need, values of 0 and below need nothing.
type Load struct{ CPU, Memory, IO int64 }

// Minus returns l less o.
func (l Load) Minus(o Load) Load { return Load{l.CPU - o.CPU, l.Memory - o.Memory, l.IO - o.IO} }

// Plus returns the sum of l and o.
func (l Load) Plus(o Load) Load { return Load{l.CPU + o.CPU, l.Memory + o.Memory, l.IO + o.IO} }

// Most returns the greater of each component.
func (l Load) Most(o Load) Load {
	return Load{max(l.CPU, o.CPU), max(l.Memory, o.Memory), max(l.IO, o.IO)}
}

// Share returns the least that each of n must give so that together they give l.
func (l Load) Share(n int64) Load {
	return Load{(l.CPU + n - 1) / n, (l.Memory + n - 1) / n, (l.IO + n - 1) / n}
}

// Within reports whether free covers a need of l. A component that is not needed may be short.
func (l Load) Within(free Load) bool { return l.exceeds(free) == Fit }

// none reports whether l needs nothing.
func (l Load) none() bool { return l.CPU <= 0 && l.Memory <= 0 && l.IO <= 0 }

// exceeds returns the first component that is short for a need of l, Fit if none is.
func (l Load) exceeds(free Load) Unfit {
	switch {
	case l.CPU > 0 && free.CPU < l.CPU:
		return CPUFull
	case l.Memory > 0 && free.Memory < l.Memory:
		return MemoryFull
	case l.IO > 0 && free.IO < l.IO:
		return IOFull
	}
	return Fit
}

// lack returns how much more of each component must become free for a need of l.
func (l Load) lack(free Load) (lack Load) {
	more := func(need, free int64) int64 {
		if need <= 0 {
			return 0
		}
		return max(0, need-free)
	}
	return Load{more(l.CPU, free.CPU), more(l.Memory, free.Memory), more(l.IO, free.IO)}
}

// compare orders loads by cpu, then memory, then I/O.
func (l Load) compare(o Load) int {
	return cmp.Or(cmp.Compare(l.CPU, o.CPU), cmp.Compare(l.Memory, o.Memory), cmp.Compare(l.IO, o.IO))
}
