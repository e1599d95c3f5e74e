package cluster

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/boltfile"
	"github.com/rotasched/rota/snapshot/archive"
)

// openArchive opens the file that retained events and the archive of jobs share,
// and what each keeps there. Its pages are checked first, as the log's are: bbolt
// ends the process over some damage, and over other damage loses records without a
// word.
func (n *Node) openArchive() (err error) {
	path := filepath.Join(n.cfg.Data, archive.FileName)
	defer boltfile.FaultsPanic()()
	defer func() {
		if what := recover(); what != nil {
			err = archiveDamaged(path, fmt.Sprintf("bbolt cannot read it (%v)", what))
		}
	}()
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		if err := boltfile.Check(path, archiveDamaged); err != nil {
			return err
		}
	}
	if n.archiveDB, err = archive.Open(path); err != nil {
		return err
	}
	n.archiveDB.NoSync = n.cfg.World.NoSync
	failpointArchive(n.archiveDB)
	n.eventFeed.events = newEventLog(n.cfg.EventsRetained, n.log)
	n.eventFeed.events.store, err = archive.OpenEvents(n.archiveDB, n.cfg.EventsRetained)
	return err
}

// archiveDamaged words an archive that cannot be trusted: nothing of a promise is in it.
func archiveDamaged(path, what string) *rota.Error {
	return rota.Refusef(rota.Conflict, "archive", "%s is damaged: %s. Move it away and start again: ended jobs and events are "+
		"fetched from the other nodes (on a cluster of one they are lost, unless a backup holds them)", path, what)
}
