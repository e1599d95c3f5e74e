//go:build plant_crc_off

package raftstore

// crcOff takes an entry, a term or a vote from disk whatever its checksum says.
func (plants) crcOff() bool { return true }
