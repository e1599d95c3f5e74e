package sched

import "github.com/rotasched/rota"

// Quotas scales the tiers' quotas to a sample of n by largest remainder; equal remainders favour the higher tier (SPEC
// §5.3).
func (k *Scoring) Quotas(n int) (quotas [rota.MaxTiers]int) {
	total := 0
	for _, q := range k.quota[:k.tiers] {
		total += q
	}
	var rest [rota.MaxTiers]int
	left := max(n, 0)
	n = left
	for i, q := range k.quota[:k.tiers] {
		quotas[i], rest[i] = n*q/total, n*q%total
		left -= quotas[i]
	}
	for ; left > 0; left-- {
		best := 0
		for i := range k.tiers {
			if rest[i] > rest[best] {
				best = i
			}
		}
		quotas[best]++
		rest[best] = -1
	}
	return quotas
}

// Taken returns how many jobs of each tier a sample of n takes, given the tiers' depths: the quotas first; what a tier
// cannot fill is filled from the top tier down (SPEC §5.3).
func (k *Scoring) Taken(n int, depths [rota.MaxTiers]int) [rota.MaxTiers]int {
	taken := k.Quotas(n)
	left := 0
	for i := range taken {
		short := max(0, taken[i]-depths[i])
		taken[i] -= short
		left += short
	}
	for i := range taken {
		more := min(left, depths[i]-taken[i])
		taken[i] += more
		left -= more
	}
	return taken
}
