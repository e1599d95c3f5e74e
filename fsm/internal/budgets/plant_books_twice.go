//go:build plant_books_twice

package budgets

// booksTwice books what an attempt used once more where its worker has not acknowledged it, as if two leaders did.
func (plants) booksTwice() bool { return true }
