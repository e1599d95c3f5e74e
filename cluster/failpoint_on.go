//go:build failpoints

package cluster

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// ROTA_FAILPOINT=name, or name:n, has this process kill itself when it passes the
// point for the first, or n-th, time. ROTA_FAILPOINT=@file has it look for such a
// line in a file all the time, which it takes away: so a test arms a node in the
// role that it happens to have. One point is armed at a time.
//
// The process ends by SIGKILL, as by a power cut: os.Exit was refused, as a runtime
// that still runs writes, answers and releases locks until it is gone.
const failpointEnv = "ROTA_FAILPOINT"

// failpointSnapshots is the variable that has raft write a snapshot every second,
// of so many entries: no user can ask for one.
const failpointSnapshots = "ROTA_FAILPOINT_SNAPSHOTS"

// failpointLook is how often the file is looked for.
const failpointLook = 5 * time.Millisecond

var armed struct {
	sync.Mutex
	name string
	left int
}

var failpointPurpose atomic.Pointer[string]

func init() {
	word := os.Getenv(failpointEnv)
	path, file := strings.CutPrefix(word, "@")
	if !file {
		arm(word)
		return
	}
	armFrom(path)
	go func() {
		for range time.Tick(failpointLook) {
			armFrom(path)
		}
	}()
}

func armFrom(path string) {
	if line, err := os.ReadFile(path); err == nil {
		arm(strings.TrimSpace(string(line)))
		_ = os.Remove(path)
	}
}

func arm(word string) {
	name, times, counted := strings.Cut(word, ":")
	n := 1
	if counted {
		n, _ = strconv.Atoi(times)
	}
	armed.Lock()
	defer armed.Unlock()
	armed.name, armed.left = name, n
}

// due counts a passing of a point, and says whether it is the one to die at.
func due(name string) bool {
	armed.Lock()
	defer armed.Unlock()
	if name != armed.name || armed.left == 0 {
		return false
	}
	armed.left--
	return armed.left == 0
}

func failpoint(name string) {
	if due(name) {
		dieAt(name)
	}
}

func dieAt(name string) {
	fmt.Fprintln(os.Stderr, "failpoint:", name)
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {}
}

func failpointWithin(purpose string) { failpointPurpose.Store(&purpose) }

//go:linkname finalizeSnapshot github.com/hashicorp/raft.(*FileSnapshotSink).finalize
func finalizeSnapshot(*raft.FileSnapshotSink) error

//go:linkname writeSnapshotMeta github.com/hashicorp/raft.(*FileSnapshotSink).writeMeta
func writeSnapshotMeta(*raft.FileSnapshotSink) error

// failpointSnapshot does what the library's Close does, up to the point.
func failpointSnapshot(sink raft.SnapshotSink) {
	file, ok := sink.(*raft.FileSnapshotSink)
	if !ok {
		return
	}
	if due("snapshot-before-meta") {
		_ = finalizeSnapshot(file)
		dieAt("snapshot-before-meta")
	}
	if due("snapshot-before-rename") {
		_ = finalizeSnapshot(file)
		_ = writeSnapshotMeta(file)
		dieAt("snapshot-before-rename")
	}
}

// failpointLog dies when a transaction's pages are in raft.db and its head is not.
func failpointLog(store *raftboltdb.BoltStore) {
	conn := reflect.ValueOf(store).Elem().FieldByName("conn")
	beforeHead(*(**bbolt.DB)(unsafe.Pointer(conn.UnsafeAddr())), func() { failpoint("log-mid-commit") })
}

// failpointArchive is the same for archive.db, where events are written.
func failpointArchive(db *bbolt.DB) {
	beforeHead(db, func() {
		if purpose := failpointPurpose.Load(); purpose != nil && *purpose == "events" {
			failpoint("events-mid-commit")
		}
	})
}

// beforeHead has bbolt call pass before it writes a head, which is what commits.
func beforeHead(db *bbolt.DB, pass func()) {
	field := reflect.ValueOf(db).Elem().FieldByName("ops").FieldByName("writeAt")
	writeAt := (*func([]byte, int64) (int, error))(unsafe.Pointer(field.UnsafeAddr()))
	write, heads := *writeAt, int64(2*db.Info().PageSize)
	*writeAt = func(page []byte, at int64) (int, error) {
		if at < heads {
			pass()
		}
		return write(page, at)
	}
}

func failpointRaft(c *raft.Config) {
	if n, err := strconv.ParseUint(os.Getenv(failpointSnapshots), 10, 32); err == nil && n > 0 {
		c.SnapshotThreshold, c.TrailingLogs, c.SnapshotInterval = n, n, 500*time.Millisecond
	}
}
