package history

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/snapshot/archive"
)

// ScrubJobs reads and verifies all ended jobs, about piece bytes at a time, and calls found for each damage. Damaged
// records are discarded, to be fetched from another node, and the index by id is restored from the records. It stops
// when rest, called with the bytes of each piece, returns false.
func (f *File) ScrubJobs(piece int, found func(name, why string), rest func(read int) bool) error {
	partial, err := f.scrubMarks(piece, found, rest)
	if err != nil {
		return err
	}
	for next := uint64(1); next != 0; {
		var read int
		var damaged []uint64
		var err error
		if next, read, damaged, err = f.Jobs.Scrub(next, piece); err != nil {
			return err
		}
		if err := f.drop(damaged, found); err != nil {
			return err
		}
		if !rest(read) {
			return nil
		}
	}
	return f.Jobs.Completed(partial)
}

// scrubMarks verifies the index of ended jobs by id, and returns where it is incomplete.
func (f *File) scrubMarks(piece int, found func(name, why string),
	rest func(read int) bool) (partial []archive.IDSpan, err error) {
	for from := rota.JobID(""); ; {
		scrubbed, err := f.Jobs.ScrubMarks(from, piece)
		if err != nil {
			return nil, err
		}
		for range scrubbed.Torn {
			found(fmt.Sprintf("list of ended jobs' ids from %q on", from), "its checksum does not match")
		}
		if err := f.drop(scrubbed.Damaged, found); err != nil {
			return nil, err
		}
		partial = append(partial, scrubbed.Partial...)
		if from = scrubbed.Next; from == "" || !rest(scrubbed.Read) {
			return partial, nil
		}
	}
}

// drop discards damaged ended jobs.
func (f *File) drop(damaged []uint64, found func(name, why string)) error {
	for _, seq := range damaged {
		found(fmt.Sprintf("ended job number %d", seq), "its checksum does not match")
	}
	if len(damaged) == 0 {
		return nil
	}
	return f.Jobs.Drop(damaged)
}

// ScrubEvents is ScrubJobs for events: damaged chunks are discarded.
func (f *File) ScrubEvents(piece int, found func(name, why string), rest func(read int) bool) error {
	var bad []rota.Index
	f.Events.Walk(func(first, last rota.Index, _ []archive.EventEntry, err error) bool {
		if err != nil {
			found(fmt.Sprintf("events of entries %d to %d", first, last), err.Error())
			bad = append(bad, first)
		}
		return rest(piece)
	})
	for _, first := range bad {
		if err := f.Events.DropAt(first); err != nil {
			return err
		}
	}
	return nil
}
