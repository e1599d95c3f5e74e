package fsm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// backupRow is the last backup that a leader stored: the only row of its table.
type backupRow struct {
	rowMeta
	// index is that of the state in it; entry the one that told of it.
	index, entry rota.Index
	// whole says that nothing but its own telling came in between.
	whole bool
	at    rota.Moment
	name  string
	sum   [sha256.Size]byte
	bytes int64
}

// TreeKey is the only one.
func (r *backupRow) TreeKey() string { return "" }

func (r *backupRow) canonical(e *encoder) {
	e.uint(uint64(r.index))
	e.uint(uint64(r.entry))
	e.bool(r.whole)
	e.moment(r.at)
	e.str(r.name)
	e.b = append(e.b, r.sum[:]...)
	e.int(r.bytes)
}

func decodeBackup(d *decoder) *backupRow {
	r := &backupRow{index: rota.Index(d.uint()), entry: rota.Index(d.uint()), whole: d.bool(), at: d.moment(), name: d.str()}
	copy(r.sum[:], d.raw(sha256.Size))
	r.bytes = d.int()
	return r
}

// backupStored is the payload of that event.
type backupStored struct {
	Index  rota.Index `json:"index"`
	Name   string     `json:"name"`
	SHA256 string     `json:"sha256"`
	Bytes  int64      `json:"bytes"`
}

// storedBackup records that the leader stored a backup. One of an older state than the last
// changes nothing: it was told late.
func (m *Machine) storedBackup(op *fsmpb.BackupStored) *fsmpb.Outcome {
	if o := m.internal(); o != nil {
		return o
	}
	index, name := rota.Index(op.GetIndex()), op.GetName()
	switch {
	case index == 0 || index >= m.at:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "index", "a backup is of index %d, this is entry %d: an earlier one is wanted", index, m.at))
	case name == "" || len(name) > limits.MaxBackupNameBytes || !ascii(name):
		return entry.Refused(rota.Refusef(rota.KindInvalid, "name", "a backup's name has %d bytes: 1 to %d of ASCII are wanted", len(name),
			limits.MaxBackupNameBytes))
	case len(op.GetSha256()) != sha256.Size:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "sha256", "a backup's SHA-256 has %d bytes: %d are wanted", len(op.GetSha256()), sha256.Size))
	case op.GetBytes() == 0 || op.GetBytes() > math.MaxInt64:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "bytes", "a backup has %d bytes: 1 to %d are wanted", op.GetBytes(), int64(math.MaxInt64)))
	}
	last := m.backups.get("")
	if last != nil && (index < last.index || index == last.index && bytes.Equal(last.sum[:], op.GetSha256())) {
		return &fsmpb.Outcome{Existed: true}
	}
	r := &backupRow{index: index, entry: m.at, whole: index == m.at-1 && m.alone, at: m.head.now(), name: name, bytes: int64(op.GetBytes())}
	copy(r.sum[:], op.GetSha256())
	if last != nil {
		m.backups.drop("")
	}
	m.backups.insert("", r)
	m.journal.emit(rota.Event{Kind: rota.EventBackupStored, Payload: payload(backupStored{index, name, hex.EncodeToString(r.sum[:]), r.bytes})})
	return &fsmpb.Outcome{}
}

// Backup returns the last backup that a leader stored, and whether it holds all that was
// written since; false without one.
func (vw *View) Backup() (b rota.StoredBackup, whole, ok bool) {
	r := vw.m.backups.get("")
	if r == nil {
		return b, false, false
	}
	return rota.StoredBackup{Index: r.index, Date: r.at.Date, Name: r.name, SHA256: bytes.Clone(r.sum[:]), Bytes: r.bytes},
		r.whole && r.entry == vw.m.head.index, true
}

// backups checks the row of the last backup.
func (c *checker) backups() {
	h := &c.m.head
	c.m.backups.scan(func(key string, r *backupRow) bool {
		if r.index == 0 || r.index >= r.entry || r.entry > h.index || r.name == "" || r.bytes <= 0 || r.whole && r.index != r.entry-1 {
			c.fault("the backup %q of index %d, told of by entry %d of %d, is unsound", r.name, r.index, r.entry, h.index)
		}
		if r.at.Clock > h.clock {
			c.fault("I6: the backup is of %d, after the clock", r.at.Clock)
		}
		return true
	})
}
