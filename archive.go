package rota

// ArchiveSpan is the numbers From to To of terminal jobs, both included. Numbers
// are dense, in the order in which jobs ended.
type ArchiveSpan struct{ From, To uint64 }

// ArchiveRecord is one terminal job as archives exchange it: its number and the
// cluster's own encoding.
type ArchiveRecord struct {
	Seq  uint64
	Data []byte
}

// ArchiveSlice is a stretch of one node's archive (SPEC §10.5).
type ArchiveSlice struct {
	// Covered are the numbers that the records stand for: one without a record is of
	// a job that has ended again since.
	Covered []ArchiveSpan
	Records []ArchiveRecord
	// Floor is the last number that retention took there; Last the newest that
	// node's state knew when it answered.
	Floor, Last uint64
}

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
