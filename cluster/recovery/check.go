package recovery

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/snapshot"
)

// CheckBackup loads a backup as a restore does, and checks its state's invariants and digest, without writing anything.
func CheckBackup(open snapshot.Opener) (rota.SnapshotInfo, error) {
	info, err := snapshot.InspectAll(open)
	if err != nil {
		return info, err
	}
	m, err := loadState(open)
	if err != nil {
		return info, err
	}
	if faults := m.Check(); len(faults) > 0 {
		return info, rota.Refusef(rota.KindInvalid, "backup", "the state contradicts itself: %s", faults[0])
	}
	if got := m.Head().Digest; got != info.Digest {
		return info, rota.Refusef(rota.KindInvalid, "backup", "digest: got state %s, want %s as the file states", got,
			info.Digest)
	}
	if err := sections(open, func(byte, []byte) error { return nil }); err != nil {
		return info, fmt.Errorf("read history: %w", err)
	}
	return info, nil
}
