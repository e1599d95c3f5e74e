//go:build plant_expiry_without_epoch

package fsm

// expiryWithoutEpoch takes the stamps and the sweeps of any term, as if no leader were ever deposed.
func (plants) expiryWithoutEpoch() bool { return true }
