package cluster

import (
	"path/filepath"

	"github.com/rotasched/rota/snapshot"
)

// openArchive opens the file that retained events and the archive of jobs share,
// and what each keeps there.
func (n *Node) openArchive() (err error) {
	if n.archiveDB, err = snapshot.OpenArchive(filepath.Join(n.cfg.Data, snapshot.ArchiveFile)); err != nil {
		return err
	}
	n.archiveDB.NoSync = n.cfg.noSync
	n.events = newEventLog(n.cfg.EventsRetained, n.log)
	n.events.store, err = snapshot.OpenEvents(n.archiveDB, n.cfg.EventsRetained)
	return err
}
