package web

import (
	"context"
	"net/http"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// backupTime bounds the sending of a backup; each piece has its own limit as well.
const backupTime = time.Hour

// maintenance registers the operators' calls on the cluster.
func (s *Site) maintenance() {
	inPieces(s, route{method: http.MethodGet, path: "/v1/cluster/snapshot",
		call: rotav1.Cluster_SaveSnapshot_FullMethodName, id: "saveSnapshot",
		lasts: backupTime, says: "Download a backup of the state of the node that answers, as of rota operator snapshot save; complete if the response ends properly"},
		rawType, binary, s.snapshot)
	add(s, route{method: http.MethodPost, path: "/v1/cluster/backup", call: rotav1.Cluster_StoreBackup_FullMethodName,
		id:   "storeBackup",
		says: "Store a backup at the location set by --backup-to; call the leader"},
		func(ctx context.Context, _ *None) (*Answer[rota.StoredBackup], error) {
			got, err := s.options.Calls.Cluster.StoreBackup(ctx, &rotav1.StoreBackupRequest{})
			if err != nil {
				return nil, err
			}
			return answer(*words.StoredBackupFromWire(got), nil), nil
		})
	add(s, route{method: http.MethodPut, path: "/v1/cluster/tzdata", call: rotav1.Cluster_InstallTZData_FullMethodName,
		id: "installTZData", says: "Install a release of the time zone database on the whole cluster"}, s.installTZData)
	add(s, route{method: http.MethodPost, path: "/v1/cluster/transfer",
		call: rotav1.Cluster_TransferLeadership_FullMethodName, id: "transferLeadership",
		optional: true, says: "Transfer leadership to the given node, or to one that the leader chooses"}, s.transfer)
	add(s, route{method: http.MethodDelete, path: "/v1/cluster/peers/{id}",
		call: rotav1.Cluster_RemovePeer_FullMethodName, id: "removePeer",
		says: "Remove a node from the Raft configuration"}, func(ctx context.Context, in *Named) (*Answer[rest.Deleted],
		error) {
		_, err := s.options.Calls.Cluster.RemovePeer(ctx, &rotav1.RemovePeerRequest{Id: in.ID})
		return answer(rest.Deleted{}, nil), err
	})
	add(s, route{method: http.MethodPost, path: "/v1/cluster/leave", call: rotav1.Cluster_Leave_FullMethodName,
		id:   "leaveCluster",
		says: "Transfer leadership away from the node that answers, remove it from the configuration and stop it"},
		func(ctx context.Context, _ *None) (*Answer[rest.Done], error) {
			_, err := s.options.Calls.Cluster.Leave(ctx, &rotav1.LeaveRequest{})
			return answer(rest.Done{}, nil), err
		})
}

func (s *Site) snapshot(ctx context.Context, _ *None) (*Pieces, error) {
	return sent(rawType, func(w *sender) error {
		w.w.Header().Set("Content-Disposition", "attachment")
		return s.options.Calls.SaveSnapshot(ctx, func(m *rotav1.SnapshotChunk) error {
			_, err := w.Write(m.GetData())
			return err
		})
	}, nil), nil
}

// TZInstallCall is a call that installs a release of the time zone database.
type TZInstallCall struct{ Given In[rota.TZInstall] }

func (s *Site) installTZData(ctx context.Context, in *TZInstallCall) (*Answer[rota.TZData], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Cluster.InstallTZData(ctx, words.TZInstallToWire(&body))
	if err != nil {
		return nil, err
	}
	return answer(*words.TZDataFromWire(got), nil), nil
}

// HandoverCall is a call that hands over leadership.
type HandoverCall struct{ Given In[rest.Handover] }

func (s *Site) transfer(ctx context.Context, in *HandoverCall) (*Answer[rest.Led], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Cluster.TransferLeadership(ctx, &rotav1.TransferLeadershipRequest{To: body.To})
	return answer(rest.Led{Leader: rota.NodeID(got.GetLeader())}, nil), err
}
