package stream

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// TestDialMeant: requests go only to the intended node.
func TestDialMeant(t *testing.T) {
	t.Parallel()
	a, other := newTestLayer(t, testHello("a"), Options{}), newTestLayer(t, testHello("b"), Options{})
	address := raft.ServerAddress(other.BoundAddr().String())
	conn, err := a.Dial(meant("b", address), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	_, err = a.Dial(meant("c", address), 5*time.Second)
	if err == nil || !strings.Contains(err.Error(), "it is node b, node c is meant") {
		t.Errorf("another node than the intended one: %v", err)
	}
	if c := a.Counts(); c.Denied != 1 {
		t.Errorf("%+v", c)
	}
}
