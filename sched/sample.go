package sched

// tierQuota is the share of each tier in a stratified sample (SPEC §5.3).
var tierQuota = [5]int{20, 15, 10, 5, 1}

// SampleQuotas scales the tiers' quotas to a sample of n by largest remainder,
// equal remainders in favour of the higher tier (SPEC §5.3).
func SampleQuotas(n int) [5]int {
	total := 0
	for _, q := range tierQuota {
		total += q
	}
	var quotas, rest [5]int
	left := max(n, 0)
	n = left
	for i, q := range tierQuota {
		quotas[i], rest[i] = n*q/total, n*q%total
		left -= quotas[i]
	}
	for ; left > 0; left-- {
		best := 0
		for i := range rest {
			if rest[i] > rest[best] {
				best = i
			}
		}
		quotas[best]++
		rest[best] = -1
	}
	return quotas
}

// SampleTaken is how many of each tier a sample of n takes from tiers so deep:
// the quotas first, what a tier cannot fill from the top down (SPEC §5.3).
func SampleTaken(n int, depths [5]int) [5]int {
	taken := SampleQuotas(n)
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
