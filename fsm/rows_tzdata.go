package fsm

import (
	"bytes"
	"crypto/sha256"

	"github.com/rotasched/rota"
)

// tzdataRow is the installed release of the time zone database (SPEC §17.7): the only row of its table. The machine
// never opens the zones: nodes do, and name in a Fire the release by which they calculated.
type tzdataRow struct {
	rowMeta
	release  string
	released rota.Date
	// data holds the packed zones, sum is their SHA-256.
	data []byte
	sum  [sha256.Size]byte
	// index is that of the entry that put it into force, at its date; by asked for it.
	index rota.Index
	at    rota.Date
	by    rota.Principal
}

// TreeKey returns the key of the only row.
func (r *tzdataRow) TreeKey() string { return "" }

func (r *tzdataRow) canonical(e *encoder) {
	e.str(r.release)
	e.int(int64(r.released))
	e.bytes(r.data)
	e.uint(uint64(r.index))
	e.int(int64(r.at))
	e.str(string(r.by))
}

func decodeTZData(d *decoder) *tzdataRow {
	r := &tzdataRow{release: d.str(), released: rota.Date(d.int()), data: d.bytes(), index: rota.Index(d.uint()), at: rota.Date(d.int()),
		by: rota.Principal(d.str())}
	r.sum = sha256.Sum256(r.data)
	return r
}

func (r *tzdataRow) words() rota.TZData {
	return rota.TZData{Release: r.release, Released: r.released, SHA256: bytes.Clone(r.sum[:]), Bytes: int64(len(r.data)), Index: r.index,
		Installed: r.at, By: r.by}
}
