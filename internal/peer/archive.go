package peer

// ArchiveSpan holds the numbers From to To of terminal jobs, both included. Numbers are dense, in the order in which
// jobs ended.
type ArchiveSpan struct{ From, To uint64 }

// ArchiveRecord is one terminal job as archives exchange it: its number and the
// cluster's own encoding.
type ArchiveRecord struct {
	Seq  uint64
	Data []byte
}

// ArchiveSlice is a range of one node's archive (SPEC §10.5).
type ArchiveSlice struct {
	// Covered holds the numbers that the records cover: one without a record belongs to a job that has ended again
	// since.
	Covered []ArchiveSpan
	Records []ArchiveRecord
	// Floor is the last number that retention removed there; Last is the newest number known to the node's state when
	// it answered.
	Floor, Last uint64
}
