package server

import (
	"os"
	"runtime"
	"sync"
)

// diskProcs is how many writers of a server may wait in the kernel for a disk at a time:
// that of raft.db and that of archive.db.
const diskProcs = 2

// roomForDisks lets two goroutines more run at a time than there are processors. One that
// waits in fsync keeps its place until the runtime looks for it. On two processors, end to
// end at 500 jobs/s was a sixth longer without. GOMAXPROCS, where it is set, is left alone.
// Once a process: it adds to what the runtime found, which follows a container's limit no
// more from then on.
var roomForDisks = sync.OnceFunc(func() {
	runtime.GOMAXPROCS(procs(runtime.GOMAXPROCS(0), os.Getenv("GOMAXPROCS")))
})

// procs is how many goroutines may run at a time, where the runtime allows found.
func procs(found int, set string) int {
	if set != "" {
		return found
	}
	return found + diskProcs
}
