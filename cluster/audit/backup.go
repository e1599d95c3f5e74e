package audit

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot"
)

// Past is the data that a backup carries for audits: an older state and the log from there to the backup's own state
// (SPEC §2.4).
type Past struct {
	keep *Keep
	base state
}

// Hold pins the oldest state, and the log after it, until release is called; nil if there is none. The state to back up
// must be frozen afterwards: no snapshot may come between.
func (k *Keep) Hold() (p *Past, release func()) {
	base, ok := k.pin()
	if !ok {
		return nil, func() {}
	}
	return &Past{k, base}, k.unpin
}

// Sections yields the older state, then the log up to the entry to.
func (p *Past) Sections(log Log, to uint64, yield func(kind byte, record []byte) error) error {
	if err := p.state(yield); err != nil {
		return err
	}
	var record []byte
	for i := p.base.index + 1; i <= to; i++ {
		var entry raft.Log
		if err := log.GetLog(i, &entry); err != nil {
			return fmt.Errorf("read entry %d for the backup: %w", i, err)
		}
		record = binary.BigEndian.AppendUint64(record[:0], i)
		record = binary.BigEndian.AppendUint64(record, entry.Term)
		record = append(append(record, byte(entry.Type)), entry.Data...)
		if err := yield(snapshot.SectionLog, record); err != nil {
			return err
		}
	}
	return nil
}

func (p *Past) state(yield func(kind byte, record []byte) error) error {
	var info rota.SnapshotInfo
	if p.base.index == 0 {
		return yieldPast(info, yield)
	}
	f, err := snapshot.OpenFile(filepath.Join(p.keep.dir, p.base.name()))
	if err != nil {
		return err
	}
	defer f.Close()
	_, _, err = snapshot.ReadState(f, func(info rota.SnapshotInfo) (snapshot.Sink[struct{}], error) {
		return pastSink{yield}, yieldPast(info, yield)
	})
	return err
}

func yieldPast(info rota.SnapshotInfo, yield func(kind byte, record []byte) error) error {
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	return yield(snapshot.SectionPast, text)
}

// pastSink yields the records of an older state as a section.
type pastSink struct {
	yield func(kind byte, record []byte) error
}

func (s pastSink) Add(kind byte, record []byte) error {
	return s.yield(snapshot.SectionPastRecord, append([]byte{kind}, record...))
}

func (s pastSink) Finish() (struct{}, error) { return struct{}{}, nil }

// Backup is Data for a backup. The replay must end at the backup's own state.
func Backup(ctx context.Context, open snapshot.Opener, log *slog.Logger) (rota.AuditReport, error) {
	f, err := open()
	if err != nil {
		return rota.AuditReport{}, err
	}
	defer f.Close()
	l := &backupLog{}
	_, info, err := snapshot.Read(f, func(rota.SnapshotInfo) (snapshot.Sink[struct{}], error) {
		return snapshot.Sections[struct{}](snapshot.Discard{}, l.take), nil
	})
	if err != nil {
		return rota.AuditReport{}, err
	}
	m, err := l.base()
	if err != nil {
		return rota.AuditReport{}, err
	}
	log.Info("replaying", "from_state", uint64(m.Head().Index), "to", uint64(info.Index))
	return stretch(ctx, m, l, uint64(info.Index), map[rota.Index]rota.Digest{info.Index: info.Digest})
}

// backupLog is the past that a backup carries. It holds the log in memory: as much as audit_retention keeps.
type backupLog struct {
	loader  *fsm.Loader
	info    rota.SnapshotInfo
	entries []raft.Log
}

func (l *backupLog) take(kind byte, record []byte) (err error) {
	damaged := func() error {
		return rota.Refusef(rota.KindInvalid, "backup", "the backup's log is damaged: a record of %d bytes",
			len(record))
	}
	switch kind {
	case snapshot.SectionPast:
		if err = json.Unmarshal(record, &l.info); err == nil {
			l.loader, err = fsm.NewLoader(l.info)
		}
	case snapshot.SectionPastRecord:
		if l.loader == nil || len(record) == 0 {
			return damaged()
		}
		err = l.loader.Add(record[0], record[1:])
	case snapshot.SectionLog:
		if l.loader == nil || len(record) < 17 {
			return damaged()
		}
		e := raft.Log{Index: binary.BigEndian.Uint64(record), Term: binary.BigEndian.Uint64(record[8:]),
			Type: raft.LogType(record[16]), Data: append([]byte(nil), record[17:]...)}
		if want := uint64(l.info.Index) + 1 + uint64(len(l.entries)); e.Index != want {
			return rota.Refusef(rota.KindInvalid, "backup", "the backup's log: got entry %d, want %d", e.Index, want)
		}
		l.entries = append(l.entries, e)
	}
	return err
}

func (l *backupLog) base() (*fsm.Machine, error) {
	switch {
	case l.loader == nil:
		return nil, rota.Refusef(rota.KindOutOfRange, "backup", "the backup carries no log: there is nothing to audit")
	case l.info.Index == 0:
		return fsm.New(), nil
	}
	return l.loader.Finish()
}

// GetLog implements Log.
func (l *backupLog) GetLog(index uint64, entry *raft.Log) error {
	i := index - uint64(l.info.Index) - 1
	if i >= uint64(len(l.entries)) {
		return raft.ErrLogNotFound
	}
	*entry = l.entries[i]
	return nil
}
