package archive

import (
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/rotasched/rota"
)

// FileName is the name of the archive in a data directory: terminal jobs and retained events (SPEC §10.5, §12.3).
const FileName = "archive.db"

// mappedBytes is the address space reserved for the file, so that growth rarely has to wait for readers. It costs no
// memory.
const mappedBytes = 1 << 30

// lockWait bounds the wait for another process's lock on the file.
const lockWait = time.Second

// Open opens or creates the one file that a node's archive of jobs and its events share, readable by its owner only.
// Each has its own buckets.
//
// A commit is on disk when it returns. The list of free pages is rebuilt at opening instead of being written with every
// commit: the cluster can replace everything in the file, so a slow start is the lower cost.
func Open(path string) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait, FreelistType: bbolt.FreelistMapType,
		NoFreelistSync: true, InitialMmapSize: mappedBytes})
	if err != nil {
		return nil, openRefusal(path, err)
	}
	return db, nil
}

// openRefusal describes why a file cannot be opened.
func openRefusal(path string, err error) error {
	if errors.Is(err, bolterrors.ErrTimeout) {
		return &rota.Error{Kind: rota.KindConflict, Op: opOpen, Subject: path,
			Text: path + " is in use by another process: stop it, or give this node a --data of its own", Cause: err}
	}
	return carried(opOpen, err, "the archive %s cannot be opened: move it away, and it is fetched again "+
		"from the other nodes", path)
}

const (
	opOpen = "open archive"
	opJobs = "archive"
)

// carried wraps an error from elsewhere and keeps its kind.
func carried(op string, cause error, format string, args ...any) error {
	return &rota.Error{Kind: rota.KindOf(cause), Op: op, Subject: "archive",
		Text: fmt.Sprintf(format, args...), RetryAfter: rota.RetryAfterOf(cause), Cause: cause}
}

// castagnoli is the table of CRC32C, which the processor computes.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// updateSum continues a checksum.
func updateSum(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }
