package fault

import (
	"encoding/binary"
)

// The fields of an IPv4 and a TCP header that are read and written here.
const (
	minIpHeader, minTcpHeader = 20, 20
	protocolTCP               = 6
	flagSYN, flagRST, flagACK = 0x02, 0x04, 0x10
)

// ends are a packet's source and destination address.
type ends struct{ from, to [4]byte }

// endsOf returns them; false if the packet is not IPv4.
func endsOf(packet []byte) (e ends, ok bool) {
	if len(packet) < minIpHeader || packet[0]>>4 != 4 {
		return e, false
	}
	copy(e.from[:], packet[12:16])
	copy(e.to[:], packet[16:20])
	return e, true
}

// resetBoth makes the resets that end a packet's connection at both ends, as a middlebox does that forgot it; nil if
// there is none to end. Each carries the exact number that its receiver expects next: a reset that is only near is
// answered by a challenge and ends nothing (RFC 5961).
func resetBoth(packet []byte) [][]byte {
	head := int(packet[0]&0xf) * 4
	if packet[9] != protocolTCP || len(packet) < head+minTcpHeader || packet[6]&0x3f != 0 || packet[7] != 0 {
		return nil
	}
	e, _ := endsOf(packet)
	tcp := packet[head:]
	source, target := binary.BigEndian.Uint16(tcp), binary.BigEndian.Uint16(tcp[2:])
	number, acked := binary.BigEndian.Uint32(tcp[4:]), binary.BigEndian.Uint32(tcp[8:])
	back := ends{e.to, e.from}
	switch flags := tcp[13]; {
	case flags&flagRST != 0:
		return nil
	case flags&flagACK == 0: // it opens a connection, which is refused
		return [][]byte{resetPacket(back, target, source, 0, number+1, flagRST|flagACK)}
	case flags&flagSYN != 0: // the answer to that
		number++
	}
	return [][]byte{
		resetPacket(e, source, target, number, acked, flagRST|flagACK),
		resetPacket(back, target, source, acked, 0, flagRST),
	}
}

func resetPacket(e ends, source, target uint16, number, acked uint32, flags byte) []byte {
	p := make([]byte, minIpHeader+minTcpHeader)
	ip, tcp := p[:minIpHeader], p[minIpHeader:]
	ip[0], ip[8], ip[9] = 0x45, 64, protocolTCP
	binary.BigEndian.PutUint16(ip[2:], uint16(len(p)))
	copy(ip[12:], e.from[:])
	copy(ip[16:], e.to[:])
	binary.BigEndian.PutUint16(ip[10:], checksum(0, ip))
	binary.BigEndian.PutUint16(tcp, source)
	binary.BigEndian.PutUint16(tcp[2:], target)
	binary.BigEndian.PutUint32(tcp[4:], number)
	binary.BigEndian.PutUint32(tcp[8:], acked)
	tcp[12], tcp[13] = minTcpHeader/4<<4, flags
	pseudo := uint32(protocolTCP + len(tcp)) // its addresses are summed with the header
	binary.BigEndian.PutUint16(tcp[16:], checksum(pseudo, append(append([]byte(nil), ip[12:20]...), tcp...)))
	return p
}

// checksum is the checksum of RFC 1071, of an even number of bytes.
func checksum(sum uint32, b []byte) uint16 {
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
