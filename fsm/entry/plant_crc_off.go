//go:build plant_crc_off

package entry

// crcOff decodes an entry whatever its checksum says.
func (plants) crcOff() bool { return true }
