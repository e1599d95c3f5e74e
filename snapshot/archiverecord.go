package snapshot

import (
	"encoding/binary"

	"github.com/klauspost/compress/zstd"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

// A record in archiveRecords: how it is packed (1), the date of its end (8), the
// length of its id (1), its id, the body, CRC32C over key and all before (4).
const (
	packedPlain byte = 1
	packedZstd  byte = 2

	recordHeadBytes = 1 + 8 + 1
	recordSumBytes  = 4
	// packFrom is the body from which compressing is worth its time: smaller ones
	// hardly shrink (BenchmarkArchivePut).
	packFrom = 1 << 10
	// maxBodyBytes bounds a body: payload, output and attempts are below it by far.
	maxBodyBytes = 4 << 20
)

// packer makes records of bodies.
type packer struct{ zstd *zstd.Encoder }

func newPacker() (*packer, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(BlockBytes), zstd.WithSingleSegment(true), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, carried(opArchive, err, "no compressor")
	}
	return &packer{z}, nil
}

func (p *packer) close() { _ = p.zstd.Close() }

func (p *packer) pack(seq uint64, ended rota.Date, id, body []byte) []byte {
	value := make([]byte, 0, recordHeadBytes+len(id)+len(body)+recordSumBytes)
	value = append(value, packedPlain)
	value = binary.BigEndian.AppendUint64(value, uint64(ended))
	value = append(append(value, byte(len(id))), id...)
	head := len(value)
	if len(body) >= packFrom {
		value[0] = packedZstd
		value = p.zstd.EncodeAll(body, value)
	}
	if value[0] == packedPlain || len(value)-head >= len(body) {
		value[0] = packedPlain
		value = append(value[:head], body...)
	}
	return binary.BigEndian.AppendUint32(value, recordSum(seq, value))
}

func recordSum(seq uint64, value []byte) uint32 {
	var key [8]byte
	binary.BigEndian.PutUint64(key[:], seq)
	return updateSum(checksum(key[:]), value)
}

// recordHead reads when a record's job ended and its id, unverified: it serves
// retention only, which needs no more.
func recordHead(value []byte) (ended rota.Date, id []byte) {
	if len(value) < recordHeadBytes || len(value) < recordHeadBytes+int(value[9]) {
		return 0, nil
	}
	return rota.Date(binary.BigEndian.Uint64(value[1:])), value[recordHeadBytes : recordHeadBytes+int(value[9])]
}

// intact says that a record is what was written for its number.
func intact(seq uint64, value []byte) bool {
	n := len(value) - recordSumBytes
	return n >= recordHeadBytes && recordSum(seq, value[:n]) == binary.BigEndian.Uint32(value[n:]) &&
		n >= recordHeadBytes+int(value[9])
}

// unpack verifies a record and gives its body; false for any damage.
func unpack(z *zstd.Decoder, seq uint64, value []byte) (body []byte, ok bool) {
	if !intact(seq, value) {
		return nil, false
	}
	body = value[recordHeadBytes+int(value[9]) : len(value)-recordSumBytes]
	switch value[0] {
	case packedPlain:
		return append([]byte(nil), body...), true
	case packedZstd:
		var head zstd.Header
		if head.Decode(body) != nil || !head.HasFCS || head.FrameContentSize > maxBodyBytes {
			return nil, false
		}
		body, err := z.DecodeAll(body, make([]byte, 0, head.FrameContentSize))
		return body, err == nil
	}
	return nil, false
}

// A mark in archiveIDs, by job id: number (8), state (1), then queue, tenant and
// type, each with its length (1). A list's filter needs no more.
func appendMark(b []byte, e *fsm.Ended) []byte {
	b = append(binary.BigEndian.AppendUint64(b, e.Seq), byte(e.Job.State))
	for _, s := range []string{string(e.Job.Queue), string(e.Job.Tenant), string(e.Job.Type)} {
		b = append(append(b, byte(len(s))), s...)
	}
	return b
}

func parseMark(id, b []byte) (m fsm.Mark, ok bool) {
	if len(b) < 9 {
		return m, false
	}
	m = fsm.Mark{ID: rota.JobID(id), Seq: binary.BigEndian.Uint64(b), State: rota.JobState(b[8])}
	var words [3]string
	rest := b[9:]
	for i := range words {
		if len(rest) == 0 || len(rest) < 1+int(rest[0]) {
			return m, false
		}
		words[i], rest = string(rest[1:1+int(rest[0])]), rest[1+int(rest[0]):]
	}
	m.Queue, m.Tenant, m.Type = rota.QueueName(words[0]), rota.TenantID(words[1]), rota.JobType(words[2])
	return m, len(rest) == 0
}
