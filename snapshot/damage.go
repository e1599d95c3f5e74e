package snapshot

import (
	"fmt"

	"github.com/rotasched/rota"
)

// DamagedError says that a file began as a rota snapshot and is not whole or not
// what was written. It is the cause of the *rota.Error that refuses the file.
type DamagedError struct {
	// Reason is the sentence: which part, what stands there, what should.
	Reason string
	// Offset is the byte of the file where the part in question begins; for a
	// truncated file it is where the bytes end.
	Offset int64
}

// Error implements error. The reason is already the text of the refusal around
// it, so only the place is told here.
func (e *DamagedError) Error() string { return fmt.Sprintf("found at byte %d", e.Offset) }

const (
	opRead  = "read snapshot"
	opWrite = "write snapshot"
	opSave  = "save snapshot"
	opOpen  = "open snapshot"
)

// damaged refuses bytes that are not what was written.
func damaged(offset int64, format string, args ...any) error {
	reason := fmt.Sprintf(format, args...)
	return &rota.Error{Kind: rota.KindInvalid, Op: opRead, Subject: "snapshot", Text: reason,
		Cause: &DamagedError{Reason: reason, Offset: offset}}
}

// foreign refuses bytes that never were a snapshot of ours.
func foreign(found []byte) error {
	return &rota.Error{Kind: rota.KindInvalid, Op: opRead, Subject: "snapshot",
		Text: fmt.Sprintf("not a rota snapshot: it begins with %q, not with %q", found, magic)}
}

// newer refuses a format that a later binary wrote.
func newer(format uint32) error {
	return &rota.Error{Kind: rota.KindConflict, Op: opRead, Subject: "snapshot",
		Text: fmt.Sprintf("snapshot format %d is newer than this binary's %d: upgrade first", format, Format)}
}

// carried wraps the error of another party and keeps its kind.
func carried(op string, cause error, format string, args ...any) error {
	return &rota.Error{Kind: rota.KindOf(cause), Op: op, Subject: "snapshot",
		Text: fmt.Sprintf(format, args...), RetryAfter: rota.RetryAfterOf(cause), Cause: cause}
}
