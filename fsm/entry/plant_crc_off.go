//go:build plant_crc_off

package entry

// crcOff decodes an entry whatever its checksum is.
func (plants) crcOff() bool { return true }
