//go:build plant_crc_off

package fsm

// crcOff decodes an entry whatever its checksum says.
func (plants) crcOff() bool { return true }
