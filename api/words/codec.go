package words

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Codec returns the codec that both ends pass to gRPC: gRPC's own, except for the messages of this package, which are
// encoded and decoded here.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2(proto.Name)} }

type codec struct{ encoding.CodecV2 }

// hotMessage is a message that decodes itself.
type hotMessage interface{ read(b []byte) error }

// Marshal encodes a message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if w, ok := v.(*Written); ok {
		return mem.BufferSlice{mem.SliceBuffer(w.bytes)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal decodes one.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(hotMessage)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	return m.read(b.ReadOnlyData())
}
