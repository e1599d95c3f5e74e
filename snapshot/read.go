package snapshot

import (
	"io"

	"github.com/rotasched/rota"
)

// Read loads the snapshot in r, which must end where the snapshot does: bytes
// after the end marker are refused, and no more than one is read to see them.
//
// newSink is called once the header verified, with everything in it but Records
// and Bytes, which only the end marker knows; it is the place to refuse another
// cluster or unknown rules. On any error the state is the zero S, and Finish was
// called only if the whole file verified.
func Read[S any](r io.Reader, newSink func(rota.SnapshotInfo) (Sink[S], error)) (
	S, rota.SnapshotInfo, error,
) {
	var none S
	var sink Sink[S]
	info, err := decode(r, func(info rota.SnapshotInfo) (func(byte, []byte) error, error) {
		s, err := newSink(info)
		if err != nil {
			return nil, carried(opRead, err, "the snapshot at index %d was rejected", info.Index)
		}
		sink = s
		return s.Add, nil
	})
	if err != nil {
		return none, rota.SnapshotInfo{}, err
	}
	state, err := sink.Finish()
	if err != nil {
		return none, rota.SnapshotInfo{}, carried(opRead, err, "the state at index %d does not verify", info.Index)
	}
	return state, info, nil
}

// Inspect reads the snapshot in r to its end and verifies everything but the
// digest, which only a state has: nobody but a Sink can recount it.
func Inspect(r io.Reader) (rota.SnapshotInfo, error) {
	return decode(r, func(rota.SnapshotInfo) (func(byte, []byte) error, error) {
		return func(byte, []byte) error { return nil }, nil
	})
}

// decode walks the file in r. begin gets the verified header and says who takes
// the records; the answer is given only after the last byte verified.
func decode(r io.Reader, begin func(rota.SnapshotInfo) (func(byte, []byte) error, error)) (
	rota.SnapshotInfo, error,
) {
	d := newDecoder(r)
	defer d.close()
	info, err := d.preamble()
	if err != nil {
		return rota.SnapshotInfo{}, err
	}
	if d.add, err = begin(info); err != nil {
		return rota.SnapshotInfo{}, err
	}
	for last := false; !last; {
		if last, err = d.block(); err != nil {
			return rota.SnapshotInfo{}, err
		}
	}
	if err := d.nothingMore(); err != nil {
		return rota.SnapshotInfo{}, err
	}
	info.Records, info.Bytes = d.sum.records, d.at
	return info, nil
}
