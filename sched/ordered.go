package sched

import "slices"

// smallMax is the largest size that an ordered set keeps in one slice. Most lanes and cells hold a few members, and a
// larger structure would use more memory than its content. maxRun is the maximum size of one run from then on.
const (
	smallMax = 32
	maxRun   = 256
)

// ordered is a sorted set: a slice while small, runs from then until empty.
type ordered[T any] struct {
	small []T
	runs  *runs[T]
}

// runs are ascending slices, none empty, each before the next. Jobs mostly arrive in the order of their ranking, or
// leave from the front: both change one end of a run. A full run that gets a member after its last one stays full; the
// nodes of the B-tree used before stayed half empty. The cost: adding or removing a run in the middle moves the list of
// runs, which takes a microsecond per job with ten million jobs.
type runs[T any] struct {
	list [][]T
	n    int
}

// insert adds x, replacing an equal member if there is one.
func (o *ordered[T]) insert(x T, less func(a, b T) bool) (replaced bool) {
	if o.runs != nil {
		return o.runs.insert(x, less)
	}
	at := search(o.small, x, less)
	if at < len(o.small) && !less(x, o.small[at]) {
		o.small[at] = x
		return true
	}
	if len(o.small) < smallMax {
		o.small = slices.Insert(o.small, at, x)
		return false
	}
	o.runs = &runs[T]{[][]T{o.small}, len(o.small)}
	o.small = nil
	return o.runs.insert(x, less)
}

func (r *runs[T]) insert(x T, less func(a, b T) bool) (replaced bool) {
	i := len(r.list) - 1
	at := len(r.list[i])
	if !less(r.list[i][at-1], x) { // x is not the last, unlike most
		i, at = r.find(x, less)
	}
	run := r.list[i]
	if at < len(run) && !less(x, run[at]) {
		run[at] = x
		return true
	}
	r.n++
	switch {
	case len(run) < maxRun:
		r.list[i] = slices.Insert(run, at, x)
	case at == maxRun:
		r.list = slices.Insert(r.list, i+1, []T{x})
	default:
		rest := slices.Clone(run[maxRun/2:])
		run = slices.Delete(run, maxRun/2, maxRun)
		if at <= maxRun/2 {
			run = slices.Insert(run, at, x)
		} else {
			rest = slices.Insert(rest, at-maxRun/2, x)
		}
		r.list[i] = run
		r.list = slices.Insert(r.list, i+1, rest)
	}
	return false
}

// find returns the run that contains x or would contain it, and the index in it of the first member that is not before
// x.
func (r *runs[T]) find(x T, less func(a, b T) bool) (run, at int) {
	lo, hi := 1, len(r.list)
	for lo < hi {
		if mid := (lo + hi) / 2; less(x, r.list[mid][0]) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo - 1, search(r.list[lo-1], x, less)
}

// remove removes x and reports whether it was a member.
func (o *ordered[T]) remove(x T, less func(a, b T) bool) bool {
	if o.runs != nil {
		found := o.runs.remove(x, less)
		if o.runs.n == 0 {
			o.runs = nil
		}
		return found
	}
	at := search(o.small, x, less)
	if at == len(o.small) || less(x, o.small[at]) {
		return false
	}
	o.small = slices.Delete(o.small, at, at+1)
	return true
}

func (r *runs[T]) remove(x T, less func(a, b T) bool) bool {
	i, at := 0, 0
	if less(r.list[0][0], x) { // x is not at the front, unlike most
		i, at = r.find(x, less)
	}
	run := r.list[i]
	if at == len(run) || less(x, run[at]) {
		return false
	}
	r.n--
	run = cutAt(run, at)
	r.list[i] = run
	switch {
	case len(run) == 0:
		r.list = cutAt(r.list, i)
	case len(run) < maxRun/4 && i+1 < len(r.list) && len(run)+len(r.list[i+1]) <= maxRun/2:
		r.list[i] = append(run, r.list[i+1]...)
		r.list = cutAt(r.list, i+1)
	case len(run) < maxRun/4 && i > 0 && len(run)+len(r.list[i-1]) <= maxRun/2:
		r.list[i-1] = append(r.list[i-1], run...)
		r.list = cutAt(r.list, i)
	}
	return true
}

// cutAt removes the member at an index from a slice; removing the first moves no others.
func cutAt[E any](list []E, at int) []E {
	if at == 0 {
		clear(list[:1])
		return list[1:]
	}
	return slices.Delete(list, at, at+1)
}

// search returns the index of the first member that is not before x.
func search[T any](list []T, x T, less func(a, b T) bool) int {
	lo, hi := 0, len(list)
	for lo < hi {
		if mid := (lo + hi) / 2; less(list[mid], x) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// rank counts the members before x. It sums over the runs: only explanations call it.
func (o *ordered[T]) rank(x T, less func(a, b T) bool) int {
	if o.runs == nil {
		return search(o.small, x, less)
	}
	i, n := o.runs.find(x, less)
	for _, run := range o.runs.list[:i] {
		n += len(run)
	}
	return n
}

func (o *ordered[T]) min() (first T, ok bool) {
	if o.runs != nil {
		return o.runs.list[0][0], true
	}
	if len(o.small) == 0 {
		return first, false
	}
	return o.small[0], true
}

// at returns the member that equals x, nil if there is none. The caller may change what the order does not depend on.
func (o *ordered[T]) at(x T, less func(a, b T) bool) *T {
	list, at := o.small, 0
	if o.runs == nil {
		at = search(list, x, less)
	} else {
		var i int
		i, at = o.runs.find(x, less)
		list = o.runs.list[i]
	}
	if at == len(list) || less(x, list[at]) {
		return nil
	}
	return &list[at]
}

func (o *ordered[T]) len() int {
	if o.runs != nil {
		return o.runs.n
	}
	return len(o.small)
}

// cursor iterates over an ordered set from its first member; the set must not change meanwhile.
type cursor[T any] struct {
	run  []T
	rest [][]T
}

func (o *ordered[T]) cursor() cursor[T] {
	if o.runs == nil {
		return cursor[T]{run: o.small}
	}
	return cursor[T]{rest: o.runs.list}
}

// from returns the cursor whose first member is not before x.
func (o *ordered[T]) from(x T, less func(a, b T) bool) cursor[T] {
	if o.runs == nil {
		return cursor[T]{run: o.small[search(o.small, x, less):]}
	}
	i, at := o.runs.find(x, less)
	return cursor[T]{o.runs.list[i][at:], o.runs.list[i+1:]}
}

func (c *cursor[T]) next() (x T, ok bool) {
	if len(c.run) == 0 {
		if len(c.rest) == 0 {
			return x, false
		}
		c.run, c.rest = c.rest[0], c.rest[1:]
	}
	x, c.run = c.run[0], c.run[1:]
	return x, true
}

// heap is a binary heap. Its orders are total, so the layout of its array has no effect.
type heap[T any] struct {
	list []T
	less func(a, b T) bool
}

func (h *heap[T]) push(x T) {
	h.list = append(h.list, x)
	i := len(h.list) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !h.less(h.list[i], h.list[up]) {
			return
		}
		h.list[i], h.list[up] = h.list[up], h.list[i]
		i = up
	}
}

func (h *heap[T]) pop() {
	var none T
	last := len(h.list) - 1
	h.list[0], h.list[last] = h.list[last], none
	h.list = h.list[:last]
	h.sink()
}

// sink restores the order after the first member has grown.
func (h *heap[T]) sink() {
	i := 0
	for {
		down := 2*i + 1
		if down >= len(h.list) {
			return
		}
		if right := down + 1; right < len(h.list) && h.less(h.list[right], h.list[down]) {
			down = right
		}
		if !h.less(h.list[down], h.list[i]) {
			return
		}
		h.list[i], h.list[down] = h.list[down], h.list[i]
		i = down
	}
}
