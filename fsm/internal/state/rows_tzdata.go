package state

import (
	"bytes"
	"crypto/sha256"

	"github.com/rotasched/rota"
)

// TzdataRow is the installed release of the time zone database (SPEC §17.7): the only row of its table. The machine
// never opens the zones: nodes do, and a Fire names the release that they used.
type TzdataRow struct {
	RowMeta
	Release  string
	Released rota.Date
	// Data holds the packed zones; sum is their SHA-256.
	Data []byte
	Sum  [sha256.Size]byte
	// Index is the index of the entry that put it into force, at its date; by is the caller.
	Index rota.Index
	At    rota.Date
	By    rota.Principal
}

// TreeKey returns the key of the only row.
func (r *TzdataRow) TreeKey() string { return "" }

// Canonical appends the canonical form for digests and snapshots.
func (r *TzdataRow) Canonical(e *Encoder) {
	e.Str(r.Release)
	e.Int(int64(r.Released))
	e.bytes(r.Data)
	e.Uint(uint64(r.Index))
	e.Int(int64(r.At))
	e.Str(string(r.By))
}

// DecodeTZData reads what Canonical wrote.
func DecodeTZData(d *Decoder) *TzdataRow {
	r := &TzdataRow{Release: d.Str(), Released: rota.Date(d.Int()), Data: d.bytes(), Index: rota.Index(d.Uint()),
		At: rota.Date(d.Int()),
		By: rota.Principal(d.Str())}
	r.Sum = sha256.Sum256(r.Data)
	return r
}

// Words returns the row in its public form.
func (r *TzdataRow) Words() rota.TZData {
	return rota.TZData{Release: r.Release, Released: r.Released, SHA256: bytes.Clone(r.Sum[:]),
		Bytes: int64(len(r.Data)), Index: r.Index, Installed: r.At, By: r.By}
}
