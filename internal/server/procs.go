package server

import (
	"os"
	"runtime"
	"sync"
)

// diskProcs is how many writers of a server may wait in the kernel for a disk at a time: that of raft.db and that of
// archive.db.
const diskProcs = 2

// roomForDisks allows two more goroutines to run at a time than there are processors. One that waits in fsync keeps its
// place until the runtime looks for it. On two processors, end-to-end latency at 500 jobs/s was a sixth longer without.
// If GOMAXPROCS is set, it is left alone. It runs once a process: it adds to the value that the runtime found, which
// from then on no longer follows a container's limit.
var roomForDisks = sync.OnceFunc(func() {
	runtime.GOMAXPROCS(procs(runtime.GOMAXPROCS(0), os.Getenv("GOMAXPROCS")))
})

// procs returns how many goroutines may run at a time, if the runtime allows found.
func procs(found int, set string) int {
	if set != "" {
		return found
	}
	return found + diskProcs
}
