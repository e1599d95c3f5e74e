package transport

import (
	"context"
	"testing"
	"time"

	"github.com/rotasched/rota/internal/peer"
)

// TestIntroduce_tellsAllOfANode checks that every field of a starting node's introduction arrives: each of them makes
// some node be rejected.
func TestIntroduce_tellsAllOfANode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		p := peersOf(t, b.lis.DialContext)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		said := peer.Introduction{Node: "n2", Identity: "abc", Starts: 7, Fresh: true, RulesVersion: 3, Term: 4,
			LastLogIndex: 5}
		if err := p.Introduce(ctx, peer.NodeAddress{ID: "n1", API: "n1:1"}, said); err != nil {
			t.Fatal(err)
		}
		if heard := b.node.introduced.Load(); heard == nil || *heard != said {
			t.Errorf("got %+v, sent %+v", heard, said)
		}
	})
}
