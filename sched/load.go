package sched

import "cmp"

// Load is what a lease takes of its worker while it is open: millicores, bytes of memory,
// bytes of I/O a second. Where it says what somebody needs, 0 and below ask for nothing.
type Load struct{ CPU, Memory, IO int64 }

// Minus is what of l is left without o.
func (l Load) Minus(o Load) Load { return Load{l.CPU - o.CPU, l.Memory - o.Memory, l.IO - o.IO} }

// Plus is l and o together.
func (l Load) Plus(o Load) Load { return Load{l.CPU + o.CPU, l.Memory + o.Memory, l.IO + o.IO} }

// Most is the greater of each.
func (l Load) Most(o Load) Load {
	return Load{max(l.CPU, o.CPU), max(l.Memory, o.Memory), max(l.IO, o.IO)}
}

// Share is what each of n has to give, at least, that all give l.
func (l Load) Share(n int64) Load {
	return Load{(l.CPU + n - 1) / n, (l.Memory + n - 1) / n, (l.IO + n - 1) / n}
}

// Within reports whether so much is enough for a need of l. What is not needed may be short.
func (l Load) Within(free Load) bool { return l.exceeds(free) == Fit }

// none reports whether l needs nothing.
func (l Load) none() bool { return l.CPU <= 0 && l.Memory <= 0 && l.IO <= 0 }

// exceeds names the first that is short for a need of l, Fit if none is.
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

// lack is how much more of each a need of l wants free.
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
