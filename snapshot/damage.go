package snapshot

import (
	"fmt"

	"github.com/rotasched/rota"
)

// DamagedError means that a file begins as a rota snapshot but is incomplete or changed. It is the cause of the
// *rota.Error that refuses the file.
type DamagedError struct {
	// Reason names the part, its content, and the expected content.
	Reason string
	// Offset is the byte of the file where that part begins; for a truncated file it is where the bytes end.
	Offset int64
}

// Error implements error. The refusal around it already has the reason as its text, so this is only the place.
func (e *DamagedError) Error() string { return fmt.Sprintf("found at byte %d", e.Offset) }

const (
	opRead  = "read snapshot"
	opWrite = "write snapshot"
	opSave  = "save snapshot"
	opOpen  = "open snapshot"
)

// damaged refuses bytes that differ from the written ones.
func damaged(offset int64, format string, args ...any) error {
	reason := fmt.Sprintf(format, args...)
	return &rota.Error{Kind: rota.KindInvalid, Op: opRead, Subject: "snapshot", Text: reason,
		Cause: &DamagedError{Reason: reason, Offset: offset}}
}

// foreign refuses bytes that never were a rota snapshot.
func foreign(found []byte) error {
	return &rota.Error{Kind: rota.KindInvalid, Op: opRead, Subject: "snapshot",
		Text: fmt.Sprintf("not a rota snapshot: it begins with %q, not with %q", found, magic)}
}

// newer refuses a format written by a later binary.
func newer(format uint32) error {
	return &rota.Error{Kind: rota.KindConflict, Op: opRead, Subject: "snapshot",
		Text: fmt.Sprintf("snapshot format %d is newer than this binary's %d: upgrade first", format, Format)}
}

// carried wraps an error from elsewhere and keeps its kind.
func carried(op string, cause error, format string, args ...any) error {
	return &rota.Error{Kind: rota.KindOf(cause), Op: op, Subject: "snapshot",
		Text: fmt.Sprintf(format, args...), RetryAfter: rota.RetryAfterOf(cause), Cause: cause}
}
