package snapshot

import (
	"fmt"
	"io"
	"strings"

	"github.com/rotasched/rota"
)

// Skipped is a candidate that FirstReadable passed over.
type Skipped struct {
	// Position of the candidate in the list.
	Position int
	// Err says why: Invalid for damage, Conflict for a newer binary's format, else
	// the kind of what could not be opened or read. A caller that sees Conflict
	// should stop and ask for the upgrade: the older snapshot is the past.
	Err error
}

// FirstReadable returns the first candidate that Inspect takes, so the list goes
// from the newest to the oldest, and why each before it was skipped. It reads
// the chosen one to its end; only Read can compare the digest. If none is
// readable, the kind is that of the newest's refusal, NotFound for an empty list.
func FirstReadable[T any](candidates []T, open func(T) (io.ReadCloser, error)) (
	best T, skipped []Skipped, err error,
) {
	for i, c := range candidates {
		err := inspectOne(c, open)
		if err == nil {
			return c, skipped, nil
		}
		skipped = append(skipped, Skipped{Position: i, Err: err})
	}
	if len(skipped) == 0 {
		return best, nil, &rota.Error{Kind: rota.KindNotFound, Op: opOpen, Subject: "snapshot",
			Text: "there is no snapshot"}
	}
	return best, skipped, noneReadable(skipped)
}

func inspectOne[T any](candidate T, open func(T) (io.ReadCloser, error)) error {
	r, err := open(candidate)
	if err != nil {
		return carried(opOpen, err, "the snapshot cannot be opened")
	}
	defer r.Close()
	_, err = Inspect(r)
	return err
}

func noneReadable(skipped []Skipped) error {
	var b strings.Builder
	for _, s := range skipped {
		fmt.Fprintf(&b, "; %d: %v", s.Position+1, s.Err)
	}
	return &rota.Error{Kind: rota.KindOf(skipped[0].Err), Op: opOpen, Subject: "snapshot",
		Text: fmt.Sprintf("none of %d snapshots is readable, newest first: %s", len(skipped), b.String()[2:])}
}
