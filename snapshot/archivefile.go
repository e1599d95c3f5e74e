package snapshot

import (
	"errors"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/rotasched/rota"
)

// ArchiveFile is the name of the archive in a data directory: terminal jobs and
// retained events (SPEC §10.5, §12.3).
const ArchiveFile = "archive.db"

// archiveMapped is the address space set aside for the file, so that growth seldom
// has to wait for readers. It costs no memory.
const archiveMapped = 1 << 30

// archiveLock bounds the wait for another process's lock on the file.
const archiveLock = time.Second

// OpenArchive opens or creates the one file that a node's archive of jobs and its
// events share, readable by its owner only. Each has buckets of its own.
//
// A commit is on disk when it returns. The list of free pages is rebuilt at
// opening instead of being written with every commit: the file holds nothing
// that the cluster could not give again, so a slow start is the better price.
func OpenArchive(path string) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: archiveLock, FreelistType: bbolt.FreelistMapType,
		NoFreelistSync: true, InitialMmapSize: archiveMapped})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, &rota.Error{Kind: rota.Conflict, Op: opOpen, Subject: path,
			Text: path + " is in use by another process: stop it, or give this node a --data of its own", Cause: err}
	}
	if err != nil {
		return nil, carried(opOpen, err, "the archive %s cannot be opened: move it away, and it is fetched again "+
			"from the other nodes", path)
	}
	return db, nil
}
