package rota

// The types with moments. Input written by people is parsed strictly.
var (
	jobSpecJSON        = strictly(layoutOf[JobSpec]())
	retryPolicyJSON    = strictly(layoutOf[RetryPolicy]())
	uniqueJSON         = strictly(layoutOf[Unique]())
	gateJSON           = strictly(layoutOf[Gate]())
	nodeSpecJSON       = strictly(layoutOf[NodeSpec]())
	attemptJSON        = layoutOf[Attempt]()
	jobJSON            = layoutOf[Job]()
	leaseJSON          = layoutOf[Lease]()
	attestationJSON    = strictly(layoutOf[Attestation]())
	typeUntilJSON      = layoutOf[TypeUntil]()
	unitsUsedJSON      = layoutOf[UnitsUsed]()
	workerJSON         = layoutOf[Worker]()
	eventJSON          = layoutOf[Event]()
	servedEventJSON    = layoutOf[ServedEvent]()
	placedDecisionJSON = layoutOf[PlacedDecision]()
	domainJSON         = layoutOf[Domain]()
	modeStatusJSON     = layoutOf[ModeStatus]()
	explanationJSON    = layoutOf[Explanation]()
	clusterStatusJSON  = layoutOf[ClusterStatus]()
	attentionJSON      = layoutOf[Attention]()
	concernJSON        = layoutOf[Concern]()
	nodeStatusJSON     = layoutOf[NodeStatus]()
	raftPeerJSON       = layoutOf[RaftPeer]()
	nodeHealthJSON     = layoutOf[NodeHealth]()
	nodeSnapshotJSON   = layoutOf[NodeSnapshot]()
	nodeArchiveJSON    = layoutOf[NodeArchive]()
	snapshotInfoJSON   = layoutOf[SnapshotInfo]()
	workflowJSON       = layoutOf[Workflow]()
	queueJSON          = layoutOf[Queue]()
	typeStatsJSON      = layoutOf[TypeStats]()
	readAtJSON         = layoutOf[ReadAt]()
	workflowNodeJSON   = layoutOf[WorkflowNode]()
	roleJSON           = layoutOf[Role]()
	accessTokenJSON    = layoutOf[AccessToken]()
	blockJSON          = layoutOf[Block]()
	issuerJSON         = layoutOf[Issuer]()
	storedBackupJSON   = layoutOf[StoredBackup]()
	tzDataJSON         = layoutOf[TZData]()
	tzInstallJSON      = strictly(layoutOf[TZInstall]())
	keyStateJSON       = layoutOf[KeyState]()
	keyPauseJSON       = layoutOf[KeyPause]()
	breakerJSON        = layoutOf[KeyBreakerState]()
	budgetStateJSON    = layoutOf[BudgetState]()
	budgetAccountJSON  = layoutOf[BudgetAccount]()
	budgetChangeJSON   = layoutOf[BudgetChange]()
	scheduleTimesJSON  = layoutOf[ScheduleTimes]()
	scheduleSpecJSON   = strictly(layoutOf[ScheduleSpec]())
	scheduleJSON       = layoutOf[Schedule]()
	fateJSON           = layoutOf[ScheduleDecision]()
	batchJSON          = layoutOf[Batch]()
	planJSON           = layoutOf[Plan]()
	webhookJSON        = layoutOf[Webhook]()
	etaJSON            = layoutOf[ETA]()
)

// MarshalJSON implements json.Marshaler.
func (s JobSpec) MarshalJSON() ([]byte, error) { return jobSpecJSON.marshal(s) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *JobSpec) UnmarshalJSON(text []byte) error { return jobSpecJSON.unmarshal(text, s) }

// MarshalJSON implements json.Marshaler.
func (r RetryPolicy) MarshalJSON() ([]byte, error) { return retryPolicyJSON.marshal(r) }

// UnmarshalJSON implements json.Unmarshaler.
func (r *RetryPolicy) UnmarshalJSON(text []byte) error { return retryPolicyJSON.unmarshal(text, r) }

// MarshalJSON implements json.Marshaler.
func (u Unique) MarshalJSON() ([]byte, error) { return uniqueJSON.marshal(u) }

// UnmarshalJSON implements json.Unmarshaler.
func (u *Unique) UnmarshalJSON(text []byte) error { return uniqueJSON.unmarshal(text, u) }

// MarshalJSON implements json.Marshaler.
func (n NodeSpec) MarshalJSON() ([]byte, error) { return nodeSpecJSON.marshal(n) }

// UnmarshalJSON implements json.Unmarshaler.
func (n *NodeSpec) UnmarshalJSON(text []byte) error { return nodeSpecJSON.unmarshal(text, n) }

// MarshalJSON implements json.Marshaler.
func (g Gate) MarshalJSON() ([]byte, error) { return gateJSON.marshal(g) }

// UnmarshalJSON implements json.Unmarshaler.
func (g *Gate) UnmarshalJSON(text []byte) error { return gateJSON.unmarshal(text, g) }

// MarshalJSON implements json.Marshaler.
func (a Attempt) MarshalJSON() ([]byte, error) {
	a.Decision.Reasoning.worker = a.Worker
	return attemptJSON.marshal(a)
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Attempt) UnmarshalJSON(text []byte) error { return attemptJSON.unmarshal(text, a) }

// MarshalJSON implements json.Marshaler.
func (j Job) MarshalJSON() ([]byte, error) { return jobJSON.marshal(j) }

// UnmarshalJSON implements json.Unmarshaler.
func (j *Job) UnmarshalJSON(text []byte) error { return jobJSON.unmarshal(text, j) }

// MarshalJSON implements json.Marshaler.
func (l Lease) MarshalJSON() ([]byte, error) {
	l.Decision.Reasoning.worker = l.Worker
	return leaseJSON.marshal(l)
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *Lease) UnmarshalJSON(text []byte) error { return leaseJSON.unmarshal(text, l) }

// MarshalJSON implements json.Marshaler.
func (a Attestation) MarshalJSON() ([]byte, error) { return attestationJSON.marshal(a) }

// UnmarshalJSON implements json.Unmarshaler.
func (a *Attestation) UnmarshalJSON(text []byte) error { return attestationJSON.unmarshal(text, a) }

// MarshalJSON implements json.Marshaler.
func (t TypeUntil) MarshalJSON() ([]byte, error) { return typeUntilJSON.marshal(t) }

// UnmarshalJSON implements json.Unmarshaler.
func (t *TypeUntil) UnmarshalJSON(text []byte) error { return typeUntilJSON.unmarshal(text, t) }

// MarshalJSON implements json.Marshaler.
func (u UnitsUsed) MarshalJSON() ([]byte, error) { return unitsUsedJSON.marshal(u) }

// UnmarshalJSON implements json.Unmarshaler.
func (u *UnitsUsed) UnmarshalJSON(text []byte) error { return unitsUsedJSON.unmarshal(text, u) }

// MarshalJSON implements json.Marshaler.
func (w Worker) MarshalJSON() ([]byte, error) { return workerJSON.marshal(w) }

// UnmarshalJSON implements json.Unmarshaler.
func (w *Worker) UnmarshalJSON(text []byte) error { return workerJSON.unmarshal(text, w) }

// MarshalJSON implements json.Marshaler.
func (e Event) MarshalJSON() ([]byte, error) { return eventJSON.marshal(e) }

// UnmarshalJSON implements json.Unmarshaler.
func (e *Event) UnmarshalJSON(text []byte) error { return eventJSON.unmarshal(text, e) }

// MarshalJSON implements json.Marshaler.
func (e ServedEvent) MarshalJSON() ([]byte, error) { return servedEventJSON.marshal(e) }

// UnmarshalJSON implements json.Unmarshaler.
func (e *ServedEvent) UnmarshalJSON(text []byte) error { return servedEventJSON.unmarshal(text, e) }

// MarshalJSON implements json.Marshaler.
func (d Domain) MarshalJSON() ([]byte, error) { return domainJSON.marshal(d) }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Domain) UnmarshalJSON(text []byte) error { return domainJSON.unmarshal(text, d) }

// MarshalJSON implements json.Marshaler.
func (m ModeStatus) MarshalJSON() ([]byte, error) { return modeStatusJSON.marshal(m) }

// UnmarshalJSON implements json.Unmarshaler.
func (m *ModeStatus) UnmarshalJSON(text []byte) error { return modeStatusJSON.unmarshal(text, m) }

// MarshalJSON implements json.Marshaler.
func (x Explanation) MarshalJSON() ([]byte, error) { return explanationJSON.marshal(x) }

// UnmarshalJSON implements json.Unmarshaler.
func (x *Explanation) UnmarshalJSON(text []byte) error { return explanationJSON.unmarshal(text, x) }

// MarshalJSON implements json.Marshaler.
func (s ClusterStatus) MarshalJSON() ([]byte, error) { return clusterStatusJSON.marshal(s) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *ClusterStatus) UnmarshalJSON(text []byte) error { return clusterStatusJSON.unmarshal(text, s) }

// MarshalJSON implements json.Marshaler.
func (a Attention) MarshalJSON() ([]byte, error) { return attentionJSON.marshal(a) }

// UnmarshalJSON implements json.Unmarshaler.
func (a *Attention) UnmarshalJSON(text []byte) error { return attentionJSON.unmarshal(text, a) }

// MarshalJSON implements json.Marshaler.
func (c Concern) MarshalJSON() ([]byte, error) { return concernJSON.marshal(c) }

// UnmarshalJSON implements json.Unmarshaler.
func (c *Concern) UnmarshalJSON(text []byte) error { return concernJSON.unmarshal(text, c) }

// MarshalJSON implements json.Marshaler.
func (i SnapshotInfo) MarshalJSON() ([]byte, error) { return snapshotInfoJSON.marshal(i) }

// UnmarshalJSON implements json.Unmarshaler.
func (i *SnapshotInfo) UnmarshalJSON(text []byte) error { return snapshotInfoJSON.unmarshal(text, i) }

// MarshalJSON implements json.Marshaler.
func (w Workflow) MarshalJSON() ([]byte, error) { return workflowJSON.marshal(w) }

// UnmarshalJSON implements json.Unmarshaler.
func (w *Workflow) UnmarshalJSON(text []byte) error { return workflowJSON.unmarshal(text, w) }

// MarshalJSON implements json.Marshaler.
func (n WorkflowNode) MarshalJSON() ([]byte, error) { return workflowNodeJSON.marshal(n) }

// UnmarshalJSON implements json.Unmarshaler.
func (n *WorkflowNode) UnmarshalJSON(text []byte) error { return workflowNodeJSON.unmarshal(text, n) }

// MarshalJSON implements json.Marshaler.
func (d PlacedDecision) MarshalJSON() ([]byte, error) {
	d.Reasoning.worker = d.Worker
	return placedDecisionJSON.marshal(d)
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *PlacedDecision) UnmarshalJSON(text []byte) error {
	return placedDecisionJSON.unmarshal(text, d)
}

// MarshalJSON implements json.Marshaler.
func (a ReadAt) MarshalJSON() ([]byte, error) { return readAtJSON.marshal(a) }

// UnmarshalJSON implements json.Unmarshaler.
func (a *ReadAt) UnmarshalJSON(text []byte) error { return readAtJSON.unmarshal(text, a) }

// MarshalJSON implements json.Marshaler.
func (q Queue) MarshalJSON() ([]byte, error) { return queueJSON.marshal(q) }

// UnmarshalJSON implements json.Unmarshaler.
func (q *Queue) UnmarshalJSON(text []byte) error { return queueJSON.unmarshal(text, q) }

// MarshalJSON implements json.Marshaler.
func (t TypeStats) MarshalJSON() ([]byte, error) { return typeStatsJSON.marshal(t) }

// UnmarshalJSON implements json.Unmarshaler.
func (t *TypeStats) UnmarshalJSON(text []byte) error { return typeStatsJSON.unmarshal(text, t) }

// MarshalJSON implements json.Marshaler.
func (r Role) MarshalJSON() ([]byte, error) { return roleJSON.marshal(r) }

// UnmarshalJSON implements json.Unmarshaler.
func (r *Role) UnmarshalJSON(text []byte) error { return roleJSON.unmarshal(text, r) }

// MarshalJSON implements json.Marshaler.
func (t AccessToken) MarshalJSON() ([]byte, error) { return accessTokenJSON.marshal(t) }

// UnmarshalJSON implements json.Unmarshaler.
func (t *AccessToken) UnmarshalJSON(text []byte) error { return accessTokenJSON.unmarshal(text, t) }

// MarshalJSON implements json.Marshaler.
func (b Block) MarshalJSON() ([]byte, error) { return blockJSON.marshal(b) }

// UnmarshalJSON implements json.Unmarshaler.
func (b *Block) UnmarshalJSON(text []byte) error { return blockJSON.unmarshal(text, b) }

// MarshalJSON implements json.Marshaler.
func (s NodeStatus) MarshalJSON() ([]byte, error) { return nodeStatusJSON.marshal(s) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *NodeStatus) UnmarshalJSON(text []byte) error { return nodeStatusJSON.unmarshal(text, s) }

// MarshalJSON implements json.Marshaler.
func (p RaftPeer) MarshalJSON() ([]byte, error) { return raftPeerJSON.marshal(p) }

// UnmarshalJSON implements json.Unmarshaler.
func (p *RaftPeer) UnmarshalJSON(text []byte) error { return raftPeerJSON.unmarshal(text, p) }

// MarshalJSON implements json.Marshaler.
func (h NodeHealth) MarshalJSON() ([]byte, error) { return nodeHealthJSON.marshal(h) }

// UnmarshalJSON implements json.Unmarshaler.
func (h *NodeHealth) UnmarshalJSON(text []byte) error { return nodeHealthJSON.unmarshal(text, h) }

// MarshalJSON implements json.Marshaler.
func (i Issuer) MarshalJSON() ([]byte, error) { return issuerJSON.marshal(i) }

// UnmarshalJSON implements json.Unmarshaler.
func (i *Issuer) UnmarshalJSON(text []byte) error { return issuerJSON.unmarshal(text, i) }

// MarshalJSON implements json.Marshaler.
func (s NodeSnapshot) MarshalJSON() ([]byte, error) { return nodeSnapshotJSON.marshal(s) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *NodeSnapshot) UnmarshalJSON(text []byte) error { return nodeSnapshotJSON.unmarshal(text, s) }

// MarshalJSON implements json.Marshaler.
func (a NodeArchive) MarshalJSON() ([]byte, error) { return nodeArchiveJSON.marshal(a) }

// UnmarshalJSON implements json.Unmarshaler.
func (a *NodeArchive) UnmarshalJSON(text []byte) error { return nodeArchiveJSON.unmarshal(text, a) }

// MarshalJSON implements json.Marshaler.
func (b StoredBackup) MarshalJSON() ([]byte, error) { return storedBackupJSON.marshal(b) }

// UnmarshalJSON implements json.Unmarshaler.
func (b *StoredBackup) UnmarshalJSON(text []byte) error { return storedBackupJSON.unmarshal(text, b) }

// MarshalJSON writes dates in both forms.
func (t TZData) MarshalJSON() ([]byte, error) { return tzDataJSON.marshal(t) }

// UnmarshalJSON implements json.Unmarshaler.
func (t *TZData) UnmarshalJSON(text []byte) error { return tzDataJSON.unmarshal(text, t) }

// MarshalJSON writes dates in both forms.
func (t TZInstall) MarshalJSON() ([]byte, error) { return tzInstallJSON.marshal(t) }

// UnmarshalJSON implements json.Unmarshaler.
func (t *TZInstall) UnmarshalJSON(text []byte) error { return tzInstallJSON.unmarshal(text, t) }

// MarshalJSON implements json.Marshaler.
func (k KeyState) MarshalJSON() ([]byte, error) { return keyStateJSON.marshal(k) }

// UnmarshalJSON implements json.Unmarshaler.
func (k *KeyState) UnmarshalJSON(text []byte) error { return keyStateJSON.unmarshal(text, k) }

// MarshalJSON implements json.Marshaler.
func (p KeyPause) MarshalJSON() ([]byte, error) { return keyPauseJSON.marshal(p) }

// UnmarshalJSON implements json.Unmarshaler.
func (p *KeyPause) UnmarshalJSON(text []byte) error { return keyPauseJSON.unmarshal(text, p) }

// MarshalJSON implements json.Marshaler.
func (b KeyBreakerState) MarshalJSON() ([]byte, error) { return breakerJSON.marshal(b) }

// UnmarshalJSON implements json.Unmarshaler.
func (b *KeyBreakerState) UnmarshalJSON(text []byte) error { return breakerJSON.unmarshal(text, b) }

// MarshalJSON implements json.Marshaler.
func (b BudgetState) MarshalJSON() ([]byte, error) { return budgetStateJSON.marshal(b) }

// UnmarshalJSON implements json.Unmarshaler.
func (b *BudgetState) UnmarshalJSON(text []byte) error { return budgetStateJSON.unmarshal(text, b) }

// MarshalJSON implements json.Marshaler.
func (a BudgetAccount) MarshalJSON() ([]byte, error) { return budgetAccountJSON.marshal(a) }

// UnmarshalJSON implements json.Unmarshaler.
func (a *BudgetAccount) UnmarshalJSON(text []byte) error { return budgetAccountJSON.unmarshal(text, a) }

// MarshalJSON implements json.Marshaler.
func (c BudgetChange) MarshalJSON() ([]byte, error) { return budgetChangeJSON.marshal(c) }

// UnmarshalJSON implements json.Unmarshaler.
func (c *BudgetChange) UnmarshalJSON(text []byte) error { return budgetChangeJSON.unmarshal(text, c) }

// MarshalJSON implements json.Marshaler.
func (t ScheduleTimes) MarshalJSON() ([]byte, error) { return scheduleTimesJSON.marshal(t) }

// UnmarshalJSON implements json.Unmarshaler.
func (t *ScheduleTimes) UnmarshalJSON(text []byte) error { return scheduleTimesJSON.unmarshal(text, t) }

// MarshalJSON implements json.Marshaler.
func (s ScheduleSpec) MarshalJSON() ([]byte, error) { return scheduleSpecJSON.marshal(s) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *ScheduleSpec) UnmarshalJSON(text []byte) error { return scheduleSpecJSON.unmarshal(text, s) }

// MarshalJSON implements json.Marshaler.
func (s Schedule) MarshalJSON() ([]byte, error) { return scheduleJSON.marshal(s) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Schedule) UnmarshalJSON(text []byte) error { return scheduleJSON.unmarshal(text, s) }

// MarshalJSON implements json.Marshaler.
func (d ScheduleDecision) MarshalJSON() ([]byte, error) { return fateJSON.marshal(d) }

// UnmarshalJSON implements json.Unmarshaler.
func (d *ScheduleDecision) UnmarshalJSON(text []byte) error { return fateJSON.unmarshal(text, d) }

// MarshalJSON implements json.Marshaler.
func (p Plan) MarshalJSON() ([]byte, error) { return planJSON.marshal(p) }

// UnmarshalJSON implements json.Unmarshaler.
func (p *Plan) UnmarshalJSON(text []byte) error { return planJSON.unmarshal(text, p) }

// MarshalJSON implements json.Marshaler.
func (b Batch) MarshalJSON() ([]byte, error) { return batchJSON.marshal(b) }

// UnmarshalJSON implements json.Unmarshaler.
func (b *Batch) UnmarshalJSON(text []byte) error { return batchJSON.unmarshal(text, b) }

// MarshalJSON implements json.Marshaler.
func (w Webhook) MarshalJSON() ([]byte, error) { return webhookJSON.marshal(w) }

// UnmarshalJSON implements json.Unmarshaler.
func (w *Webhook) UnmarshalJSON(text []byte) error { return webhookJSON.unmarshal(text, w) }

// MarshalJSON implements json.Marshaler.
func (e ETA) MarshalJSON() ([]byte, error) { return etaJSON.marshal(e) }

// UnmarshalJSON implements json.Unmarshaler.
func (e *ETA) UnmarshalJSON(text []byte) error { return etaJSON.unmarshal(text, e) }
