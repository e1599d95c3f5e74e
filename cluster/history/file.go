package history

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/boltfile"
	"github.com/rotasched/rota/snapshot/archive"
)

// File is the database next to the log that holds ended jobs and events.
type File struct {
	DB     *bbolt.DB
	Jobs   *archive.Jobs
	Events *archive.Events
}

// FileOptions configures OpenFile.
type FileOptions struct {
	Path string
	// Retained is how many events are kept.
	Retained uint64
	// NoSync skips fsync.
	NoSync bool
	// Cluster is the cluster that the data directory belongs to, "" if not known yet; Fresh reports that the directory
	// holds no state.
	Cluster rota.ClusterID
	Fresh   bool
}

// OpenFile opens the file of a node. It checks the pages first, as for the log: bbolt ends the process over some
// damage, and silently loses records over other damage. The error for a file of another cluster names that cluster: its
// numbers identify other jobs.
func OpenFile(o FileOptions) (f *File, err error) {
	defer boltfile.FaultsPanic()()
	defer func() {
		if what := recover(); what != nil {
			err = damaged(o.Path, fmt.Sprintf("bbolt cannot read it (%v)", what))
		}
		if err != nil && f != nil {
			_ = f.DB.Close()
			f = nil
		}
	}()
	if info, err := os.Stat(o.Path); err == nil && info.Size() > 0 {
		if err := boltfile.Check(o.Path, damaged); err != nil {
			return nil, err
		}
	}
	db, err := archive.Open(o.Path)
	if err != nil {
		return nil, err
	}
	f = &File{DB: db}
	db.NoSync = o.NoSync
	failpointArchive(db)
	if f.Events, err = archive.OpenEvents(db, o.Retained); err != nil {
		return f, err
	}
	if f.Jobs, err = archive.OpenJobs(db); err != nil {
		return f, err
	}
	cluster, _ := f.Jobs.Cluster()
	return f, o.refuseOther(cluster)
}

// LookAt returns the error that OpenFile would return, except for damage within a page, and writes nothing.
func LookAt(o FileOptions) (err error) {
	defer boltfile.FaultsPanic()()
	defer func() {
		if what := recover(); what != nil {
			err = damaged(o.Path, fmt.Sprintf("bbolt cannot read it (%v)", what))
		}
	}()
	switch info, err := os.Stat(o.Path); {
	case errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0:
		return nil
	case err != nil:
		return err
	}
	if err := boltfile.Check(o.Path, damaged); err != nil {
		return err
	}
	cluster, err := archive.Peek(o.Path)
	if err != nil {
		return err
	}
	return o.refuseOther(cluster)
}

// ReadOnly opens the ended jobs in the file of a stopped node, after the same check of the pages; it writes nothing.
func ReadOnly(path string) (*archive.Jobs, error) {
	if err := LookAt(FileOptions{Path: path}); err != nil {
		return nil, err
	}
	return archive.ReadOnly(path)
}

// refuseOther rejects the history of another cluster.
func (o *FileOptions) refuseOther(cluster rota.ClusterID) error {
	switch {
	case cluster == "" || cluster == o.Cluster:
	case o.Cluster != "":
		return rota.Refusef(rota.KindConflict, "archive",
			"%s holds the history of cluster %s, but this node belongs to cluster %s. Move the file away: "+
				"the right history is then fetched from the other nodes", o.Path, cluster, o.Cluster)
	case o.Fresh:
		return rota.Refusef(rota.KindConflict, "archive",
			"%s holds the history of cluster %s, but this node has no state yet: move the "+
				"file away", o.Path, cluster)
	}
	return nil
}

// damaged returns the error for an archive that cannot be trusted; unlike the log, it holds no promises.
func damaged(path, what string) *rota.Error {
	return rota.Refusef(rota.KindConflict, "archive",
		"%s is damaged: %s. Move it away and start again: ended jobs and events are fetched from the other nodes. "+
			"On a cluster of one they are lost, unless a backup holds them", path, what)
}

// claim binds the file to the node's cluster before its first write, so that the history of another cluster is never
// mistaken for this one's. Once no older binary can return, the file gets the newest format. claim reports false while
// the cluster is unknown, and nothing may be written yet.
func (f *File) claim(head fsm.Head) (known bool, err error) {
	if head.ClusterID == "" {
		return false, nil
	}
	if err := f.Jobs.Claim(head.ClusterID, head.Incarnation); err != nil || head.Rules < 2 {
		return true, err
	}
	return true, f.Jobs.Pack()
}
