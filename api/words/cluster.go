package words

import (
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/internal/peer"
)

// ReadToWire converts the freshness that a read needs; the zero value becomes nil.
func ReadToWire(opt peer.ReadOptions) *rotav1.Read {
	if opt == (peer.ReadOptions{}) {
		return nil
	}
	return &rotav1.Read{Stale: opt.Stale, MinIndex: uint64(opt.MinIndex)}
}

// ReadFromWire is the inverse of ReadToWire; nil means linearizable.
func ReadFromWire(w *rotav1.Read) peer.ReadOptions {
	return peer.ReadOptions{Stale: w.GetStale(), MinIndex: rota.Index(w.GetMinIndex())}
}

// ReadAtToWire converts the state that a read saw.
func ReadAtToWire(at rota.ReadAt) *rotav1.ReadAt {
	return &rotav1.ReadAt{Index: uint64(at.Index), AgeMs: at.Age.Milliseconds()}
}

// ReadAtFromWire is the inverse of ReadAtToWire.
func ReadAtFromWire(w *rotav1.ReadAt) rota.ReadAt {
	return rota.ReadAt{Index: rota.Index(w.GetIndex()), Age: millis.Duration(w.GetAgeMs())}
}

func digestFromWire(s string) (d rota.Digest, err error) {
	if s == "" {
		return d, nil
	}
	if err := d.UnmarshalText([]byte(s)); err != nil {
		return rota.Digest{}, rota.Refusef(rota.KindInvalid, "digest", "digest: got %q; use 32 hex digits", shown(s))
	}
	return d, nil
}

// NodeStatusToWire converts one node as `cluster status` shows it.
func NodeStatusToWire(s *rota.NodeStatus) *rotav1.NodeStatus {
	return &rotav1.NodeStatus{
		Id: string(s.ID), Api: s.API, Raft: s.Raft, State: s.State, Voter: s.Voter, Version: s.Version,
		AppliedIndex: uint64(s.AppliedIndex), Digest: s.Digest.String(), Healthy: s.Healthy,
		Problems: cleanAll(s.Problems), RulesVersion: s.RulesVersion, NonVoter: s.NonVoter,
		Health:        nodeHealthToWire(s.NodeHealth),
		DiskFreeBytes: s.DiskFree, DiskBytes: s.DiskTotal, WallSkewMs: s.WallSkew.Milliseconds(),
		CertificateEndsMs: int64(s.CertificateEnds), Snapshot: nodeSnapshotToWire(s.Snapshot),
		Archive: nodeArchiveToWire(s.Archive),
	}
}

func nodeSnapshotToWire(s *rota.NodeSnapshot) *rotav1.NodeSnapshot {
	if s == nil {
		return nil
	}
	return &rotav1.NodeSnapshot{Index: uint64(s.Index), DateMs: int64(s.Date), Bytes: s.Bytes}
}

func nodeSnapshotFromWire(w *rotav1.NodeSnapshot) *rota.NodeSnapshot {
	if w == nil {
		return nil
	}
	return &rota.NodeSnapshot{Index: rota.Index(w.GetIndex()), Date: rota.Date(w.GetDateMs()), Bytes: w.GetBytes()}
}

func nodeArchiveToWire(a *rota.NodeArchive) *rotav1.NodeArchive {
	if a == nil {
		return nil
	}
	return &rotav1.NodeArchive{Records: a.Records, OldestMs: int64(a.Oldest), Bytes: a.Bytes,
		LagMs: a.Lag.Milliseconds(), Staged: a.Staged, Lacking: a.Lacking, Lost: a.Lost}
}

func nodeArchiveFromWire(w *rotav1.NodeArchive) *rota.NodeArchive {
	if w == nil {
		return nil
	}
	return &rota.NodeArchive{Records: w.GetRecords(), Oldest: rota.Date(w.GetOldestMs()), Bytes: w.GetBytes(),
		Lag: millis.Duration(w.GetLagMs()), Staged: w.GetStaged(), Lacking: w.GetLacking(), Lost: w.GetLost()}
}

// NodeStatusFromWire is the inverse of NodeStatusToWire.
func NodeStatusFromWire(w *rotav1.NodeStatus) (rota.NodeStatus, error) {
	digest, err := digestFromWire(w.GetDigest())
	return rota.NodeStatus{
		ID: rota.NodeID(w.GetId()), API: w.GetApi(), Raft: w.GetRaft(), State: w.GetState(), Voter: w.GetVoter(),
		Version: w.GetVersion(), AppliedIndex: rota.Index(w.GetAppliedIndex()), Digest: digest,
		Healthy: w.GetHealthy(), Problems: notNil(w.GetProblems()), RulesVersion: w.GetRulesVersion(),
		NonVoter:   w.GetNonVoter(),
		NodeHealth: nodeHealthFromWire(w.GetHealth()),
		DiskFree:   w.GetDiskFreeBytes(), DiskTotal: w.GetDiskBytes(), WallSkew: millis.Duration(w.GetWallSkewMs()),
		CertificateEnds: rota.Date(w.GetCertificateEndsMs()), Snapshot: nodeSnapshotFromWire(w.GetSnapshot()),
		Archive: nodeArchiveFromWire(w.GetArchive()),
	}, err
}

// ClusterStatusToWire converts the cluster as one node sees it.
func ClusterStatusToWire(s *rota.ClusterStatus) *rotav1.StatusResponse {
	j := &s.Jobs
	return &rotav1.StatusResponse{
		ClusterId: string(s.ClusterID), Leader: string(s.Leader), Term: s.Term,
		AppliedIndex: uint64(s.AppliedIndex),
		ClockMs:      int64(s.Clock), DateMs: int64(s.Date), Mode: s.Mode.String(), Workers: s.Workers,
		Jobs: &rotav1.JobCounts{
			Blocked: j.Blocked, Delayed: j.Delayed, Queued: j.Queued, Assigned: j.Assigned, Running: j.Running,
			Completed: j.Completed, Dead: j.Dead, Expired: j.Expired, Cancelled: j.Cancelled,
		},
		Nodes: each(s.Nodes, NodeStatusToWire), ModeReason: clean(s.ModeReason), Drained: s.Drained,
		RulesVersion: s.RulesVersion, StateBytes: s.StateBytes, StateBytesMax: s.StateBytesMax,
		Autopilot: autopilotToWire(&s.Autopilot),
		Backup:    StoredBackupToWire(s.Backup),
		Tzdata:    TZDataToWire(s.TZData),
		Etag:      s.ETag,
	}
}

// ClusterStatusFromWire is the inverse of ClusterStatusToWire.
func ClusterStatusFromWire(w *rotav1.StatusResponse) (rota.ClusterStatus, error) {
	j := w.GetJobs()
	s := rota.ClusterStatus{
		ClusterID: rota.ClusterID(w.GetClusterId()), Leader: rota.NodeID(w.GetLeader()), Term: w.GetTerm(),
		AppliedIndex: rota.Index(w.GetAppliedIndex()), Clock: rota.Clock(w.GetClockMs()),
		Date: rota.Date(w.GetDateMs()), Workers: w.GetWorkers(), ModeReason: w.GetModeReason(), Drained: w.GetDrained(),
		RulesVersion: w.GetRulesVersion(), StateBytes: w.GetStateBytes(), StateBytesMax: w.GetStateBytesMax(),
		Autopilot: autopilotFromWire(w.GetAutopilot()),
		Backup:    StoredBackupFromWire(w.GetBackup()),
		TZData:    TZDataFromWire(w.GetTzdata()),
		ETag:      w.GetEtag(),
		Jobs: rota.JobCounts{
			Blocked: j.GetBlocked(), Delayed: j.GetDelayed(), Queued: j.GetQueued(), Assigned: j.GetAssigned(),
			Running: j.GetRunning(), Completed: j.GetCompleted(), Dead: j.GetDead(), Expired: j.GetExpired(),
			Cancelled: j.GetCancelled(),
		},
	}
	var err error
	if s.Mode, err = modes.value(w.GetMode()); err != nil {
		return s, err
	}
	s.Nodes, err = tryEach(w.GetNodes(), NodeStatusFromWire)
	return s, err
}

// StoredBackupToWire converts the last backup; nil means none.
func StoredBackupToWire(b *rota.StoredBackup) *rotav1.StoredBackup {
	if b == nil {
		return nil
	}
	return &rotav1.StoredBackup{Index: uint64(b.Index), DateMs: int64(b.Date), Name: clean(b.Name), Sha256: b.SHA256,
		Bytes: b.Bytes}
}

// StoredBackupFromWire is the inverse of StoredBackupToWire.
func StoredBackupFromWire(w *rotav1.StoredBackup) *rota.StoredBackup {
	if w == nil {
		return nil
	}
	return &rota.StoredBackup{Index: rota.Index(w.GetIndex()), Date: rota.Date(w.GetDateMs()), Name: w.GetName(),
		SHA256: w.GetSha256(), Bytes: w.GetBytes()}
}

// TZDataToWire converts a release of the time zone database; nil means none.
func TZDataToWire(t *rota.TZData) *rotav1.TZData {
	if t == nil {
		return nil
	}
	return &rotav1.TZData{Release: clean(t.Release), ReleasedMs: int64(t.Released), Sha256: t.SHA256, Bytes: t.Bytes,
		Index: uint64(t.Index), InstalledMs: int64(t.Installed), By: clean(string(t.By))}
}

// TZDataFromWire is the inverse of TZDataToWire.
func TZDataFromWire(w *rotav1.TZData) *rota.TZData {
	if w == nil {
		return nil
	}
	return &rota.TZData{Release: w.GetRelease(), Released: rota.Date(w.GetReleasedMs()), SHA256: w.GetSha256(),
		Bytes: w.GetBytes(),
		Index: rota.Index(w.GetIndex()), Installed: rota.Date(w.GetInstalledMs()), By: rota.Principal(w.GetBy())}
}

// TZInstallToWire converts a request to install a release.
func TZInstallToWire(t *rota.TZInstall) *rotav1.InstallTZDataRequest {
	return &rotav1.InstallTZDataRequest{Release: t.Release, ReleasedMs: int64(t.Released), Data: t.Data, Older: t.Older}
}

// TZInstallFromWire is the inverse of TZInstallToWire.
func TZInstallFromWire(w *rotav1.InstallTZDataRequest) rota.TZInstall {
	return rota.TZInstall{Release: w.GetRelease(), Released: rota.Date(w.GetReleasedMs()), Data: w.GetData(),
		Older: w.GetOlder()}
}

// AttentionToWire converts the concerns for an operator.
func AttentionToWire(a *rota.Attention) *rotav1.AttentionResponse {
	return &rotav1.AttentionResponse{Node: string(a.Node), DateMs: int64(a.Date), Checked: a.Checked,
		Concerns: each(a.Concerns, func(c *rota.Concern) *rotav1.Concern {
			return &rotav1.Concern{Kind: c.Kind, Critical: c.Critical, Node: string(c.Node), Queue: string(c.Queue),
				Text: c.Text, Count: c.Count, SinceMs: int64(c.Since), Runbook: c.Runbook}
		})}
}

// AttentionFromWire is the inverse of AttentionToWire.
func AttentionFromWire(w *rotav1.AttentionResponse) rota.Attention {
	a := rota.Attention{Node: rota.NodeID(w.GetNode()), Date: rota.Date(w.GetDateMs()), Checked: w.GetChecked(),
		Concerns: []rota.Concern{}}
	for _, c := range w.GetConcerns() {
		a.Concerns = append(a.Concerns, rota.Concern{Kind: c.GetKind(), Critical: c.GetCritical(),
			Node:  rota.NodeID(c.GetNode()),
			Queue: rota.QueueName(c.GetQueue()), Text: c.GetText(), Count: c.GetCount(),
			Since: rota.Date(c.GetSinceMs()), Runbook: c.GetRunbook()})
	}
	return a
}

// RaftPeerToWire converts one server of the Raft configuration.
func RaftPeerToWire(p *rota.RaftPeer) *rotav1.Peer {
	return &rotav1.Peer{Id: string(p.ID), Address: p.Address, Voter: p.Voter, Leader: p.Leader,
		Health: nodeHealthToWire(p.NodeHealth)}
}

// RaftPeerFromWire is the inverse of RaftPeerToWire.
func RaftPeerFromWire(w *rotav1.Peer) rota.RaftPeer {
	return rota.RaftPeer{
		ID: rota.NodeID(w.GetId()), Address: w.GetAddress(), Voter: w.GetVoter(), Leader: w.GetLeader(),
		NodeHealth: nodeHealthFromWire(w.GetHealth()),
	}
}

// nodeHealthToWire converts the leader's view of a node; a zero value becomes nil.
func nodeHealthToWire(h rota.NodeHealth) *rotav1.NodeHealth {
	if h == (rota.NodeHealth{}) {
		return nil
	}
	return &rotav1.NodeHealth{HealthySinceMs: int64(h.HealthySince), LastContactMs: int64(h.LastContact)}
}

func nodeHealthFromWire(w *rotav1.NodeHealth) rota.NodeHealth {
	return rota.NodeHealth{HealthySince: rota.Date(w.GetHealthySinceMs()), LastContact: rota.Date(w.GetLastContactMs())}
}

func autopilotToWire(a *rota.Autopilot) *rotav1.Autopilot {
	return &rotav1.Autopilot{On: a.On, VotersWanted: a.VotersWanted, HealthyVoters: a.HealthyVoters,
		Text: clean(a.Text)}
}

func autopilotFromWire(w *rotav1.Autopilot) rota.Autopilot {
	return rota.Autopilot{On: w.GetOn(), VotersWanted: w.GetVotersWanted(), HealthyVoters: w.GetHealthyVoters(),
		Text: w.GetText()}
}

// NodeVerdictToWire converts one node's part of a verification.
func NodeVerdictToWire(v *rota.NodeVerdict) *rotav1.NodeVerdict {
	return &rotav1.NodeVerdict{
		Id: string(v.ID), Index: uint64(v.Index), Digest: v.Digest.String(), Violations: cleanAll(v.Violations),
		Error: clean(v.Error),
	}
}

// NodeVerdictFromWire is the inverse of NodeVerdictToWire.
func NodeVerdictFromWire(w *rotav1.NodeVerdict) (rota.NodeVerdict, error) {
	digest, err := digestFromWire(w.GetDigest())
	return rota.NodeVerdict{
		ID: rota.NodeID(w.GetId()), Index: rota.Index(w.GetIndex()), Digest: digest,
		Violations: notNil(w.GetViolations()), Error: w.GetError(),
	}, err
}

// VerdictToWire converts the answer of `operator verify`.
func VerdictToWire(v *rota.Verdict) *rotav1.VerifyResponse {
	return &rotav1.VerifyResponse{
		Index: uint64(v.Index), Nodes: each(v.Nodes, NodeVerdictToWire), Equal: v.Equal,
	}
}

// VerdictFromWire is the inverse of VerdictToWire.
func VerdictFromWire(w *rotav1.VerifyResponse) (rota.Verdict, error) {
	nodes, err := tryEach(w.GetNodes(), NodeVerdictFromWire)
	return rota.Verdict{Index: rota.Index(w.GetIndex()), Nodes: nodes, Equal: w.GetEqual()}, err
}

// BeatToWire converts a worker's beat between nodes.
func BeatToWire(b *peer.Beat) *rotav1.WorkerBeat {
	return &rotav1.WorkerBeat{Worker: string(b.Worker), Session: uint64(b.Session), Broken: b.Broken,
		NextMs: b.Next.Milliseconds()}
}

// BeatFromWire is the inverse of BeatToWire.
func BeatFromWire(w *rotav1.WorkerBeat) peer.Beat {
	return peer.Beat{Worker: rota.WorkerID(w.GetWorker()), Session: rota.Session(w.GetSession()), Broken: w.GetBroken(),
		Next: time.Duration(w.GetNextMs()) * time.Millisecond}
}

// BeatAnswerToWire converts the leader's answer to a node's beats.
func BeatAnswerToWire(a *peer.BeatAnswer) *rotav1.NodeBeatResponse {
	return &rotav1.NodeBeatResponse{ClockMs: int64(a.Clock), EveryMs: a.Every.Milliseconds(), Refused: a.Refused}
}

// BeatAnswerFromWire is the inverse of BeatAnswerToWire.
func BeatAnswerFromWire(w *rotav1.NodeBeatResponse) peer.BeatAnswer {
	return peer.BeatAnswer{Beaten: peer.Beaten{Clock: rota.Clock(w.GetClockMs()),
		Every: time.Duration(w.GetEveryMs()) * time.Millisecond}, Refused: w.GetRefused()}
}

// InspectionToWire converts a node's report on itself.
func InspectionToWire(i *peer.Inspection) *rotav1.InspectResponse {
	digests := make([]string, len(i.Digests))
	for n, d := range i.Digests {
		if d != nil {
			digests[n] = d.String()
		}
	}
	return &rotav1.InspectResponse{
		Status: NodeStatusToWire(&i.Status), WallMs: i.WallMs, Digests: digests, ClusterId: string(i.ClusterID),
		LastLogIndex: uint64(i.LastLogIndex), DiskLevel: uint32(i.DiskLevel), DiskRoom: i.DiskRoom,
		DifferedAt: uint64(i.DifferedAt), RightUntil: uint64(i.RightUntil), Identity: i.Identity, Term: i.Term,
		Cut:       cutToWire(i.Cut),
		Autopilot: autopilotToWire(&i.Autopilot), Health: each(i.Health, func(h *peer.NodeHealth) *rotav1.HealthOf {
			return &rotav1.HealthOf{Id: string(h.ID), Health: nodeHealthToWire(h.NodeHealth)}
		}),
		Views: each(i.Views, func(v *peer.NodeView) *rotav1.NodeView {
			return &rotav1.NodeView{Id: string(v.ID), Gossip: v.Gossip, AnsweredMs: v.AnsweredMs, RaftMs: v.RaftMs,
				Error: v.Error}
		}),
	}
}

// cutToWire converts a loss of applied entries; none becomes nil.
func cutToWire(c peer.LogCut) *rotav1.LogCut {
	if c == (peer.LogCut{}) {
		return nil
	}
	return &rotav1.LogCut{From: c.From, To: c.To, Term: c.Term, AtMs: c.AtMs}
}

// InspectionFromWire is the inverse of InspectionToWire.
func InspectionFromWire(w *rotav1.InspectResponse) (peer.Inspection, error) {
	i := peer.Inspection{
		ClusterID: rota.ClusterID(w.GetClusterId()), WallMs: w.GetWallMs(),
		LastLogIndex: rota.Index(w.GetLastLogIndex()), DiskLevel: uint8(min(w.GetDiskLevel(), 2)),
		DiskRoom:   w.GetDiskRoom(),
		DifferedAt: rota.Index(w.GetDifferedAt()), RightUntil: rota.Index(w.GetRightUntil()), Identity: w.GetIdentity(),
		Term: w.GetTerm(),
		Cut: peer.LogCut{From: w.GetCut().GetFrom(), To: w.GetCut().GetTo(), Term: w.GetCut().GetTerm(),
			AtMs: w.GetCut().GetAtMs()},
		Autopilot: autopilotFromWire(w.GetAutopilot()),
	}
	var err error
	if i.Status, err = NodeStatusFromWire(w.GetStatus()); err != nil {
		return i, err
	}
	for _, h := range w.GetHealth() {
		i.Health = append(i.Health, peer.NodeHealth{ID: rota.NodeID(h.GetId()),
			NodeHealth: nodeHealthFromWire(h.GetHealth())})
	}
	for _, v := range w.GetViews() {
		i.Views = append(i.Views, peer.NodeView{ID: rota.NodeID(v.GetId()), Gossip: v.GetGossip(),
			AnsweredMs: v.GetAnsweredMs(), RaftMs: v.GetRaftMs(), Error: v.GetError()})
	}
	i.Digests, err = tryEach(w.GetDigests(), func(s string) (*rota.Digest, error) {
		if s == "" {
			return nil, nil
		}
		d, err := digestFromWire(s)
		return &d, err
	})
	return i, err
}

func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
