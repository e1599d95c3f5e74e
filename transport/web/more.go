package web

import (
	"context"
	"net/http"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

func (s *Site) batches() {
	const all, one = "/v1/batches", "/v1/batches/{id}"
	add(s, route{method: http.MethodGet, path: all, call: rotav1.Batches_List_FullMethodName, id: "listBatches",
		says: "List the batches"}, s.listBatches)
	add(s, route{method: http.MethodGet, path: one, call: rotav1.Batches_Get_FullMethodName, id: "getBatch",
		says: "Read a batch: how many of its jobs are live, and how the others ended"}, s.getBatch)
	add(s, route{method: http.MethodPut, path: one, call: rotav1.Batches_Open_FullMethodName, id: "openBatch",
		says: "Open a batch; its callback is submitted once all its jobs have ended"}, s.openBatch)
	add(s, route{method: http.MethodPost, path: one + "/seal", call: rotav1.Batches_Seal_FullMethodName,
		id:   "sealBatch",
		says: "Seal a batch, so that no more jobs can be added"},
		func(ctx context.Context, in *Named) (*Answer[rota.Batch], error) {
			return batchAnswer(s.options.Calls.Batches.Seal(ctx, &rotav1.SealBatchRequest{Id: in.ID}))
		})
}

func (s *Site) listBatches(ctx context.Context, in *MadeList) (*Answer[rest.Batches], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Batches.List(ctx, &rotav1.ListBatchesRequest{Read: read, Limit: in.Limit,
		Cursor: in.Cursor, By: in.By})
	if err != nil {
		return nil, err
	}
	rows, err := listed(got.GetBatches(), words.BatchFromWire)
	return answer(rest.Batches{Batches: rows, NextCursor: got.GetNextCursor()}, got.GetAt()), err
}

func (s *Site) getBatch(ctx context.Context, in *One) (*Answer[rota.Batch], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Batches.Get(ctx, &rotav1.GetBatchRequest{Id: in.ID, Read: read})
	if err != nil {
		return nil, err
	}
	b, err := words.BatchFromWire(got.GetBatch())
	return answer(b, got.GetAt()), err
}

func (s *Site) openBatch(ctx context.Context, in *Setting[rest.BatchOpening]) (*Answer[rota.Batch], error) {
	body := rest.BatchOpening{Callback: rota.NewJobSpec("", nil)}
	if err := decode(in.Given.raw, &body, ""); err != nil {
		return nil, err
	}
	return batchAnswer(s.options.Calls.Batches.Open(ctx, words.BatchSpecToWire(&rota.BatchSpec{ID: rota.BatchID(in.ID),
		Size: body.Size, Callback: body.Callback})))
}

func batchAnswer(w *rotav1.Batch, err error) (*Answer[rota.Batch], error) {
	if err != nil {
		return nil, err
	}
	b, err := words.BatchFromWire(w)
	return answer(b, nil), err
}

func (s *Site) operations() {
	add(s, route{method: http.MethodGet, path: "/v1/cluster/mode", call: rotav1.Cluster_GetMode_FullMethodName,
		id: "getMode", says: "Read which requests the cluster admits, and why"}, s.getMode)
	add(s, route{method: http.MethodPut, path: "/v1/cluster/mode", call: rotav1.Cluster_SetMode_FullMethodName,
		id: "setMode", says: "Change which requests the cluster admits"}, s.setMode)
	add(s, route{method: http.MethodGet, path: "/v1/cluster/peers", call: rotav1.Cluster_Peers_FullMethodName,
		id:   "listPeers",
		says: "List the Raft configuration"}, func(ctx context.Context, _ *None) (*Answer[rest.Peers], error) {
		got, err := s.options.Calls.Cluster.Peers(ctx, &rotav1.PeersRequest{})
		if err != nil {
			return nil, err
		}
		all := rest.Peers{Peers: make([]rota.RaftPeer, 0, len(got.GetPeers()))}
		for _, p := range got.GetPeers() {
			all.Peers = append(all.Peers, words.RaftPeerFromWire(p))
		}
		return answer(all, nil), nil
	})
	add(s, route{method: http.MethodPost, path: "/v1/cluster/verify", call: rotav1.Cluster_Verify_FullMethodName,
		id:   "verifyCluster",
		says: "Check the invariants of every node, and compare their digests"},
		func(ctx context.Context, _ *None) (*Answer[rota.Verdict], error) {
			got, err := s.options.Calls.Cluster.Verify(ctx, &rotav1.VerifyRequest{})
			if err != nil {
				return nil, err
			}
			v, err := words.VerdictFromWire(got)
			return answer(v, nil), err
		})
	s.maintenance()
}

func (s *Site) getMode(ctx context.Context, in *Reading) (*Answer[rota.ModeStatus], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Cluster.GetMode(ctx, &rotav1.GetModeRequest{Read: read})
	if err != nil {
		return nil, err
	}
	m, err := words.ModeFromWire(got.GetMode())
	return answer(m, got.GetAt()), err
}

// ModeSetting is a call that sets the mode.
type ModeSetting struct{ Given In[rest.ModeChange] }

func (s *Site) setMode(ctx context.Context, in *ModeSetting) (*Answer[rota.ModeStatus], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Cluster.SetMode(ctx, &rotav1.SetModeRequest{Mode: body.Mode, Reason: body.Reason})
	if err != nil {
		return nil, err
	}
	m, err := words.ModeFromWire(got)
	return answer(m, nil), err
}
