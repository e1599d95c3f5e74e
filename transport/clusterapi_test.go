package transport

import (
	"context"
	"io"
	"testing"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// TestSaveSnapshot_oneAtATime checks that six at once give one backup and five errors, and that the next one succeeds.
func TestSaveSnapshot_oneAtATime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	goOn := make(chan struct{})
	b.core.snapshot = func(ctx context.Context, w io.Writer) error {
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		return nil
	}
	ends := make(chan error, 6)
	save := func() {
		stream, err := b.cluster.SaveSnapshot(bounded(t), &rotav1.SaveSnapshotRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		ends <- err
	}
	for range 6 {
		go save()
	}
	for range 5 {
		if err := <-ends; kindOf(err) != rota.KindExhausted {
			t.Fatalf("a second one ended with %v", err)
		}
	}
	close(goOn)
	if err := <-ends; err != io.EOF {
		t.Errorf("the one ended with %v", err)
	}
	go save()
	if err := <-ends; err != io.EOF {
		t.Error("the next is refused")
	}
}
