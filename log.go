package rota

// AttemptLog is what is known of the log of an attempt, or of its end (SPEC §22.3).
type AttemptLog struct {
	Job     JobID    `json:"job"`
	Attempt int32    `json:"attempt"`
	Lease   LeaseID  `json:"lease_id"`
	Worker  WorkerID `json:"worker"`
	// Open says that the attempt has not ended: there may be more to come.
	Open bool `json:"open"`
	// Parts are whole lines, in their order.
	Parts []LogPart `json:"parts"`
}

// LogPart is a piece of a log: whole lines, each with its newline.
type LogPart struct {
	// At is how many bytes of the log come before it, CutLines how many lines of those are not
	// kept.
	At       uint64 `json:"at"`
	CutLines uint64 `json:"cut_lines,omitempty"`
	Text     Blob   `json:"text"`
}

// End returns the place behind the part.
func (p *LogPart) End() uint64 { return p.At + uint64(len(p.Text)) }

// LogOf says which attempt's log is asked for, and from where on.
type LogOf struct {
	Job JobID
	// Attempt is its number, the newest of those with that number; nil stands for the newest
	// of all. Lease, where it is not zero, says which it is instead.
	Attempt *int32
	Lease   LeaseID
	// After leaves out what comes before so many bytes.
	After uint64
}
