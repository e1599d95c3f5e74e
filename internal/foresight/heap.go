package foresight

// heap is a binary heap: the least is list[0].
type heap[T any] struct {
	list []T
	less func(a, b T) bool
}

func (h *heap[T]) push(x T) {
	h.list = append(h.list, x)
	h.raise(len(h.list) - 1)
}

// take removes and returns the member at an index.
func (h *heap[T]) take(i int) T {
	var none T
	x, last := h.list[i], len(h.list)-1
	h.list[i], h.list[last] = h.list[last], none
	if h.list = h.list[:last]; i < last {
		h.raise(h.sink(i))
	}
	return x
}

// raise moves a member up to its place.
func (h *heap[T]) raise(i int) {
	for i > 0 {
		up := (i - 1) / 2
		if !h.less(h.list[i], h.list[up]) {
			return
		}
		h.list[i], h.list[up] = h.list[up], h.list[i]
		i = up
	}
}

// sink moves a member down to its place, and returns that index.
func (h *heap[T]) sink(i int) int {
	for {
		down := 2*i + 1
		if right := down + 1; right < len(h.list) && h.less(h.list[right], h.list[down]) {
			down = right
		}
		if down >= len(h.list) || !h.less(h.list[down], h.list[i]) {
			return i
		}
		h.list[i], h.list[down] = h.list[down], h.list[i]
		i = down
	}
}
