package rota

// AttemptLog is the known part of the log of an attempt (SPEC §22.3).
type AttemptLog struct {
	Job     JobID    `json:"job"`
	Attempt int32    `json:"attempt"`
	Lease   LeaseID  `json:"lease_id"`
	Worker  WorkerID `json:"worker"`
	// Open reports that the attempt has not ended, so that the log may still grow.
	Open bool `json:"open"`
	// Parts are whole lines, in order.
	Parts []LogPart `json:"parts"`
}

// LogPart is a piece of a log: whole lines, each with its newline.
type LogPart struct {
	// At is the number of bytes of the log before this part; CutLines is the number of lines before it that are not
	// kept.
	At       uint64 `json:"at"`
	CutLines uint64 `json:"cut_lines,omitempty"`
	Text     Blob   `json:"text"`
}

// End returns the position after the part.
func (p *LogPart) End() uint64 { return p.At + uint64(len(p.Text)) }

// LogOf selects the attempt whose log is read, and the position to start from.
type LogOf struct {
	Job JobID
	// Attempt is the number of the attempt: the newest one with that number, or the newest of all if nil. Lease, if not
	// zero, selects the attempt instead.
	Attempt *int32
	Lease   LeaseID
	// After is the number of bytes at the beginning of the log to leave out.
	After uint64
}
