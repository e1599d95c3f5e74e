package client

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// silent does not answer until the caller has gone.
func silent(ctx context.Context) (*rotav1.StatusResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestStatus_asksAll checks that a silent node does not delay the answer of another, and that the answer of a node that
// knows the leader is preferred.
func TestStatus_asksAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 3)
		defer stop()
		f.nodes[0].onStatus = silent
		f.nodes[1].onStatus = func(context.Context) (*rotav1.StatusResponse, error) {
			return words.ClusterStatusToWire(&rota.ClusterStatus{AppliedIndex: 9}), nil
		}
		f.nodes[2].onStatus = func(ctx context.Context) (*rotav1.StatusResponse, error) {
			time.Sleep(time.Second)
			return words.ClusterStatusToWire(&rota.ClusterStatus{AppliedIndex: 7, Leader: "n3"}), nil
		}
		began := time.Now()
		s, err := f.client.Status(t.Context())
		if err != nil || s.Leader != "n3" || time.Since(began) != time.Second {
			t.Fatalf("%+v, %v after %s", s, err, time.Since(began))
		}
		f.nodes[2].onStatus = silent
		if s, err = f.client.Status(t.Context()); err != nil || s.AppliedIndex != 9 {
			t.Fatalf("%+v, %v", s, err)
		}
	})
}

// TestStatus_saysWhoIsSilent checks that a dead cluster is reported after a few seconds, node by node.
func TestStatus_saysWhoIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 2)
		defer stop()
		f.nodes[0].onStatus = silent
		f.nodes[1].onStatus = func(context.Context) (*rotav1.StatusResponse, error) {
			return nil, words.ToStatus(rota.Refusef(rota.KindUnavailable, "", "the node stops"))
		}
		began := time.Now()
		_, err := f.client.Status(t.Context())
		if rota.KindOf(err) != rota.KindUnavailable || time.Since(began) != maxAnswer ||
			!strings.Contains(err.Error(), "node node0:6470 did not answer in time") ||
			!strings.Contains(err.Error(), "node node1:6470: the node stops") {
			t.Fatalf("%v after %s", err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err = f.client.Status(ctx); rota.KindOf(err) != rota.KindTimeout {
			t.Fatalf("after the timeout: %v", err)
		}
	})
}

// TestPatience checks that a call without an answer, and one that is refused again and again, end when patience does,
// long before the caller's deadline.
func TestPatience(t *testing.T) {
	t.Parallel()
	hangs := func(ctx context.Context, _ *rotav1.GetJobRequest) (*rotav1.GetJobResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	refuses := func(context.Context, *rotav1.GetJobRequest) (*rotav1.GetJobResponse, error) {
		return nil, words.ToStatus(rota.Refusef(rota.KindUnavailable, "", "no leader"))
	}
	for name, get := range map[string]func(context.Context, *rotav1.GetJobRequest) (*rotav1.GetJobResponse, error){
		"hangs": hangs, "refuses": refuses} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f, stop := setup(t, 2)
				defer stop()
				f.client.patience = 10 * time.Second
				f.nodes[0].onGet, f.nodes[1].onGet = get, get
				began := time.Now()
				_, err := f.client.Job(t.Context(), "j")
				if rota.KindOf(err) != rota.KindUnavailable || time.Since(began) != 10*time.Second ||
					!strings.Contains(err.Error(), "node0:6470, node1:6470") {
					t.Errorf("%v after %s", err, time.Since(began))
				}
			})
		})
	}
}
