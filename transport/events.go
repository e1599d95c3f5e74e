package transport

import (
	"context"
	"sync"

	"google.golang.org/grpc"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/transport/web"
)

// eventsService streams events to consumers (SPEC §12.3).
type eventsService struct {
	rotav1.UnimplementedEventsServer
	server *Server
	core   SelfCore
}

// Tail lasts as long as the caller wishes, or until this node shuts down. It ends with Exhausted for a consumer that is
// too slow.
func (s *eventsService) Tail(req *rotav1.TailRequest, stream grpc.ServerStreamingServer[rotav1.EventBatch]) error {
	filter, err := words.TailFromWire(req)
	if err != nil {
		return err
	}
	ctx, cancel := s.server.untilDrain(stream.Context())
	defer cancel()
	err = s.core.Events(ctx, filter, func(batch peer.EventBatch) error {
		messages, err := s.server.batches.of(batch).messages(stream)
		for _, m := range messages {
			if err := stream.SendMsg(m); err != nil {
				return err
			}
		}
		return err
	})
	if err != nil && s.server.draining.Err() != nil {
		return s.server.going()
	}
	return err
}

const (
	// eventsInMessage and eventsBytes bound one message of events, far below limits.MaxMessageBytes with the longest
	// texts.
	eventsInMessage = 512
	eventsBytes     = 256 << 10
	// batchesShared bounds the batches whose encodings are kept for others.
	batchesShared = 32
)

// encodedBatch is one batch of events in the forms that are sent, each made once for all consumers: encoding costs far
// more than sending.
type encodedBatch struct {
	web.Batch
	grpc    sync.Once
	wire    []*grpc.PreparedMsg
	wireErr error
}

// webEvents returns the core's Events for HTTP.
func (s *Server) webEvents(ctx context.Context, filter rota.EventFilter, send func(*web.Batch) error) error {
	return s.options.Core.Events(ctx, filter, func(batch peer.EventBatch) error {
		if err := wasCutOff(ctx); err != nil {
			return err
		}
		return send(&s.batches.of(batch).Batch)
	})
}

// messages returns the batch as gRPC messages. The last one carries how far the search went if the last event does not.
func (b *encodedBatch) messages(stream grpc.ServerStream) ([]*grpc.PreparedMsg, error) {
	b.grpc.Do(func() {
		for left, first := b.Events, true; len(left) > 0 || first; first = false {
			m, n, size := &rotav1.EventBatch{}, 0, 0
			for n < len(left) && n < eventsInMessage && size < eventsBytes {
				m.Events = append(m.Events, words.EventToWire(&left[n]))
				size += len(left[n].Payload) + len(left[n].Text)
				n++
			}
			if left = left[n:]; len(left) == 0 && (n == 0 || b.Scanned != b.Events[len(b.Events)-1].ID) {
				m.Scanned = words.EventIDToWire(b.Scanned)
			}
			prepared := &grpc.PreparedMsg{}
			if err := prepared.Encode(stream, m); err != nil {
				b.wireErr = err
				return
			}
			b.wire = append(b.wire, prepared)
		}
	})
	return b.wire, b.wireErr
}

// batchShare finds encodings of a batch that the core also gave to others: the same slice is the same batch, as batches
// are immutable.
type batchShare struct {
	mu    sync.Mutex
	at    map[*rota.ServedEvent]*encodedBatch
	order []*rota.ServedEvent
}

func (c *batchShare) of(batch peer.EventBatch) *encodedBatch {
	events, fresh := batch.Events, &encodedBatch{Batch: web.Batch{Events: batch.Events, Scanned: batch.Scanned}}
	if len(events) == 0 || batch.Own {
		return fresh
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.at[&events[0]]
	if b != nil && len(b.Events) == len(events) && b.Scanned == batch.Scanned {
		return b
	}
	if b != nil {
		return fresh // a part of it: made for this consumer only
	}
	if c.at == nil {
		c.at = make(map[*rota.ServedEvent]*encodedBatch)
	}
	if len(c.order) >= batchesShared {
		delete(c.at, c.order[0])
		c.order = c.order[1:]
	}
	c.at[&events[0]] = fresh
	c.order = append(c.order, &events[0])
	return fresh
}

// EventRange returns events to a node that misses them.
func (s *nodeService) EventRange(ctx context.Context,
	req *rotav1.EventRangeRequest) (*rotav1.EventRangeResponse, error) {
	if err := s.admit(ctx, req.GetCaller()); err != nil {
		return nil, err
	}
	chunk, err := s.core.EventRange(ctx, peer.EventRange{From: req.GetFrom(), At: rota.Index(req.GetAt())})
	if err != nil {
		return nil, err
	}
	return &rotav1.EventRangeResponse{Data: chunk.Data, Oldest: chunk.Oldest, Next: chunk.Next}, nil
}

// eventChunkBytes is the maximum size of an answer with events: one entry may end tens of thousands of leases.
const eventChunkBytes = 64 << 20

// EventRange requests events that this node misses from another one.
func (p *Peers) EventRange(ctx context.Context,
	to peer.NodeAddress, r peer.EventRange) (chunk peer.EventChunk, err error) {
	err = p.call(ctx, to, func(ctx context.Context, node rotav1.NodeClient, me *rotav1.Caller) error {
		answer, err := node.EventRange(ctx, &rotav1.EventRangeRequest{Caller: me, From: r.From, At: uint64(r.At)},
			grpc.MaxCallRecvMsgSize(eventChunkBytes))
		chunk = peer.EventChunk{Data: answer.GetData(), Oldest: answer.GetOldest(), Next: answer.GetNext()}
		return err
	})
	return chunk, err
}
