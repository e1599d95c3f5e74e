package sched

import "math/rand/v2"

// Shuffled returns the Fisher–Yates shuffle of 0 … n−1 (SPEC §7.4): for each place the index in the original order. The
// generator is ChaCha8, and the seed is its only input.
func Shuffled(n int, seed Hash) []int32 {
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	shuffle(order, seed)
	return order
}

func shuffle(order []int32, seed Hash) {
	if len(order) < 2 {
		return
	}
	generator := rand.NewChaCha8(seed)
	for i := len(order) - 1; i >= 1; i-- {
		j := uniform(generator, uint64(i)+1)
		order[i], order[j] = order[j], order[i]
	}
}

// uniform draws one of 0 … n−1, rejecting the values ≥ 2⁶⁴ − (2⁶⁴ mod n). A value below 2⁶⁴ − n is never rejected,
// which saves the second division.
func uniform(generator *rand.ChaCha8, n uint64) uint64 {
	for {
		v := generator.Uint64()
		if v < -n || v < -(-n%n) || -n%n == 0 {
			return v % n
		}
	}
}
