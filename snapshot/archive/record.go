package archive

import (
	"encoding/binary"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

// A record in recordsBucket: how it is packed (1), the date of its end (8), the length of its id (1), its id, the body,
// CRC32C over key and all before (4).
const (
	packedPlain byte = 1
	packedZstd  byte = 2

	recordHeadBytes = 1 + 8 + 1
	recordSumBytes  = 4
	// packFrom is the body size from which compression is worth its time: smaller ones hardly shrink (BenchmarkPut).
	packFrom = 1 << 10
	// windowBytes is how far back a compressor looks; hardly a record is longer.
	windowBytes = 256 << 10
	// maxBodyBytes bounds a body: payload, output and attempts are far below it.
	maxBodyBytes = 4 << 20
)

// packer makes records from bodies; it is safe for concurrent use.
type packer struct{ zstd *zstd.Encoder }

// newPacker returns the one packer: a compressor for each flush was rejected, because it costs more than the
// compression itself.
var newPacker = sync.OnceValues(func() (*packer, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(windowBytes), zstd.WithSingleSegment(true), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, carried(opJobs, err, "no compressor")
	}
	z.EncodeAll([]byte{0}, nil) // allocates all of it here, once, before the first flush
	return &packer{z}, nil
})

// maxPacked returns the maximum size of a record.
func maxPacked(id, body int) int { return recordHeadBytes + id + body + recordSumBytes }

// append appends a record to b; it fits if maxPacked does.
func (p *packer) append(b []byte, seq uint64, ended rota.Date, id rota.JobID, body []byte) []byte {
	at := len(b)
	b = append(b, packedPlain)
	b = binary.BigEndian.AppendUint64(b, uint64(ended))
	b = append(append(b, byte(len(id))), id...)
	head := len(b)
	if len(body) >= packFrom {
		b[at] = packedZstd
		b = p.zstd.EncodeAll(body, b)
	}
	if b[at] == packedPlain || len(b)-head >= len(body) {
		b[at] = packedPlain
		b = append(b[:head], body...)
	}
	return binary.BigEndian.AppendUint32(b, recordSum(seq, b[at:]))
}

func recordSum(seq uint64, value []byte) uint32 {
	var key [8]byte
	binary.BigEndian.PutUint64(key[:], seq)
	return updateSum(checksum(key[:]), value)
}

// recordHead reads when a record's job ended and its id, unverified: only retention uses it.
func recordHead(value []byte) (ended rota.Date, id []byte) {
	if len(value) < recordHeadBytes || len(value) < recordHeadBytes+int(value[9]) {
		return 0, nil
	}
	return rota.Date(binary.BigEndian.Uint64(value[1:])), value[recordHeadBytes : recordHeadBytes+int(value[9])]
}

// intact reports whether a record is the one written for its number.
func intact(seq uint64, value []byte) bool {
	n := len(value) - recordSumBytes
	return n >= recordHeadBytes && recordSum(seq, value[:n]) == binary.BigEndian.Uint32(value[n:]) &&
		n >= recordHeadBytes+int(value[9])
}

// unpack verifies a record and returns its body; false for any damage.
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

// A mark in idsBucket, by job id: number (8), state (1), then queue, tenant and type, each with its length (1): enough
// for a list's filter.
func appendMark(b []byte, e *fsm.Ended) []byte { return appendMarkOf(b, markOf(e)) }

func markOf(e *fsm.Ended) fsm.Mark {
	return fsm.Mark{ID: e.Job.ID, Seq: e.Seq, Queue: e.Job.Queue, Tenant: e.Job.Tenant, Type: e.Job.Type,
		State: e.Job.State}
}

func appendMarkOf(b []byte, m fsm.Mark) []byte {
	b = append(binary.BigEndian.AppendUint64(b, m.Seq), byte(m.State))
	for _, s := range [...]string{string(m.Queue), string(m.Tenant), string(m.Type)} {
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
