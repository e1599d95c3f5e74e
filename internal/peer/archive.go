package peer

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
