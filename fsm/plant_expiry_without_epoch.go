//go:build plant_expiry_without_epoch

package fsm

// expiryWithoutEpoch accepts the stamps and sweeps of any term, as if no leader were ever replaced.
func (plants) expiryWithoutEpoch() bool { return true }
