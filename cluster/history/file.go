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

// File is the file beside the log, which ended jobs and events share.
type File struct {
	DB     *bbolt.DB
	Jobs   *archive.Jobs
	Events *archive.Events
}

// FileOptions say what a file is opened for.
type FileOptions struct {
	Path string
	// Retained is how many events are kept.
	Retained uint64
	// NoSync skips fsync.
	NoSync bool
	// Cluster is the cluster that the data directory belongs to, "" where none is known
	// yet; Fresh says that it holds no state.
	Cluster rota.ClusterID
	Fresh   bool
}

// OpenFile opens the file of a node. Its pages are checked first, as the log's are: bbolt
// ends the process over some damage, and over other damage loses records without a
// word. A file of another cluster is refused by name: its numbers mean other jobs.
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

// LookAt returns what OpenFile would refuse, but for damage within a page, and writes nothing.
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

// refuseOther refuses the history of another cluster.
func (o *FileOptions) refuseOther(cluster rota.ClusterID) error {
	switch {
	case cluster == "" || cluster == o.Cluster:
	case o.Cluster != "":
		return rota.Refusef(rota.KindConflict, "archive", "%s holds the history of cluster %s, but this node belongs to cluster %s: move "+
			"the file away, and the right history is fetched from the other nodes", o.Path, cluster, o.Cluster)
	case o.Fresh:
		return rota.Refusef(rota.KindConflict, "archive", "%s holds the history of cluster %s, but this node has no state yet: move the "+
			"file away", o.Path, cluster)
	}
	return nil
}

// damaged words an archive that cannot be trusted: nothing of a promise is in it.
func damaged(path, what string) *rota.Error {
	return rota.Refusef(rota.KindConflict, "archive", "%s is damaged: %s. Move it away and start again: ended jobs and events are "+
		"fetched from the other nodes (on a cluster of one they are lost, unless a backup holds them)", path, what)
}

// claim binds the file to the node's cluster before the first thing is written to it:
// that of another must never be taken for this one's. It reports false where the cluster
// is not known, and nothing is to be written yet.
func (f *File) claim(head fsm.Head) (known bool, err error) {
	if head.ClusterID == "" {
		return false, nil
	}
	return true, f.Jobs.Claim(head.ClusterID, head.Incarnation)
}
