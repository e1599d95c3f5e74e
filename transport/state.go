package transport

import (
	"bufio"
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/peer"
)

// State streams this node's state to one that rebuilds its own (SPEC §2.5).
func (s *nodeService) State(req *rotav1.StateRequest, stream grpc.ServerStreamingServer[rotav1.SnapshotChunk]) error {
	if err := s.admit(stream.Context(), req.GetCaller()); err != nil {
		return err
	}
	out := bufio.NewWriterSize(chunkWriter{stream}, chunkBytes)
	if err := s.core.SaveState(stream.Context(), out); err != nil {
		return err
	}
	return out.Flush()
}

// State writes another node's state to w. The written bytes are valid only if it returns no error.
func (p *Peers) State(ctx context.Context, to peer.NodeAddress, w io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()   // ends a stream that is not read to its end
	var broken error // w's own error, which does not come from the other node
	err := p.call(ctx, to, func(ctx context.Context, node rotav1.NodeClient, me *rotav1.Caller) error {
		stream, err := node.State(ctx, &rotav1.StateRequest{Caller: me})
		for err == nil {
			var chunk *rotav1.SnapshotChunk
			if chunk, err = stream.Recv(); err == nil {
				_, broken = w.Write(chunk.GetData())
			}
			if broken != nil {
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
	return errors.Join(err, broken)
}
