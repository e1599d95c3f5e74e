package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// teller is a node that sends events from 0 on, and breaks off as configured.
type teller struct {
	rotav1.UnimplementedEventsServer
	until uint32
	end   error
	again bool
	// scanned is sent in a last batch without events.
	scanned string
	asked   []string
}

func (n *teller) Tail(r *rotav1.TailRequest, s grpc.ServerStreamingServer[rotav1.EventBatch]) error {
	filter, err := words.TailFromWire(r)
	if err != nil {
		return err
	}
	n.asked = append(n.asked, r.GetFrom())
	from := uint32(0)
	if !filter.After.IsZero() {
		from = filter.After.Seq + 1
	}
	if n.again && from > 0 {
		from-- // a fault: an event already sent is sent again
	}
	for seq := from; seq < n.until; seq++ {
		e := &rota.ServedEvent{Event: rota.Event{ID: rota.EventID{Incarnation: 1, Index: 5, Seq: seq},
			Kind: rota.EventJobCompleted}}
		if err := s.Send(&rotav1.EventBatch{Events: []*rotav1.ServedEvent{words.EventToWire(e)}}); err != nil {
			return err
		}
	}
	if n.scanned != "" {
		if err := s.Send(&rotav1.EventBatch{Scanned: n.scanned}); err != nil {
			return err
		}
	}
	return n.end
}

// tellers starts nodes a, b, … and returns a client of all.
func tellers(t *testing.T, nodes ...*teller) *Client {
	t.Helper()
	listeners := make(map[string]*bufconn.Listener)
	var addrs []string
	for i, n := range nodes {
		lis, server := bufconn.Listen(1<<16), grpc.NewServer()
		rotav1.RegisterEventsServer(server, n)
		go func() { _ = server.Serve(lis) }()
		t.Cleanup(server.Stop)
		address := fmt.Sprintf("%c:1", 'a'+i)
		listeners[address], addrs = lis, append(addrs, address)
	}
	c, err := Dial(addrs, WithDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return listeners[address].DialContext(ctx)
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestEvents_goOnAtAnotherNode(t *testing.T) {
	t.Parallel()
	down := words.ToStatus(rota.Refusef(rota.KindUnavailable, "", "going"))
	c := tellers(t, &teller{until: 3, end: down}, &teller{until: 6, end: down, again: true}, &teller{until: 9})
	var got []uint32
	events, err := Collect(c.Events(t.Context(), rota.EventFilter{}))
	for _, e := range events {
		got = append(got, e.ID.Seq)
	}
	if err != nil || fmt.Sprint(got) != "[0 1 2 3 4 5 6 7 8]" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestEvents_resumeAfterWhatWasLookedAt breaks off a node that searched for long without sending an event: the next
// node is asked to start where the search ended, not at the last event sent.
func TestEvents_resumeAfterWhatWasLookedAt(t *testing.T) {
	t.Parallel()
	down := words.ToStatus(rota.Refusef(rota.KindUnavailable, "", "going"))
	second := &teller{}
	c := tellers(t, &teller{until: 2, scanned: "1.900.3", end: down}, second)
	if _, err := Collect(c.Events(t.Context(), rota.EventFilter{})); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(second.asked) != "[1.900.3]" {
		t.Errorf("the second node was asked from %q", second.asked)
	}
}

func TestEvents_end(t *testing.T) {
	t.Parallel()
	refusal := rota.Refusef(rota.KindOutOfRange, "event_id", "event 9.9.9 is of the future")
	c := tellers(t, &teller{end: words.ToStatus(refusal)})
	_, err := Collect(c.Events(t.Context(), rota.EventFilter{}))
	if rota.KindOf(err) != rota.KindOutOfRange {
		t.Errorf("a refusal: %v", err)
	}
	c = tellers(t, &teller{until: 1})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, failed := range c.Events(ctx, rota.EventFilter{Follow: true}) {
		err = failed
		cancel()
	}
	if rota.KindOf(err) != rota.KindTimeout || !errors.Is(err, context.Canceled) {
		t.Errorf("after giving up following: %v", err)
	}
}
