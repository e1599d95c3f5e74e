package rota

// ArchiveStatus is a node's history as the node itself tells it.
type ArchiveStatus struct {
	// Staged records wait in memory for the archive, for LagMs by now. Dropped were
	// given up before they were written.
	Staged      int64  `json:"staged"`
	StagedBytes int64  `json:"staged_bytes"`
	LagMs       int64  `json:"lag_ms"`
	Dropped     uint64 `json:"dropped,omitempty"`
	// Records and Bytes are in the archive; OldestDate is of the oldest one's end.
	Records    uint64 `json:"records"`
	Bytes      uint64 `json:"bytes"`
	OldestDate Date   `json:"oldest_date_ms,omitempty"`
	// Lacking records are fetched from other nodes; Lost ones no node has.
	Lacking uint64 `json:"lacking,omitempty"`
	Lost    uint64 `json:"lost,omitempty"`
}
