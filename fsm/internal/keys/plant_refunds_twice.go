//go:build plant_refunds_twice

package keys

// refundsTwice credits what an attempt did not spend twice.
func (plants) refundsTwice() bool { return true }
