//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"go.etcd.io/bbolt"
)

// ROTA_FAILPOINT=name, or name:n, makes this process kill itself when it passes the point for the first, or n-th, time.
// With ROTA_FAILPOINT=@file it polls a file for such a line and removes the file: so a test arms a node in its current
// role. One point is armed at a time.
//
// The process ends by SIGKILL, as by a power cut. os.Exit was rejected, because a runtime that still runs writes,
// answers and releases locks until it ends.
const env = "ROTA_FAILPOINT"

// lookEvery is how often the file is checked.
const lookEvery = 5 * time.Millisecond

var armed struct {
	sync.Mutex
	name string
	left int
}

// takeOrders starts at the first point that is passed: a server restarts as the same process before it does anything,
// and an order read before that would be lost.
var takeOrders = sync.OnceFunc(func() {
	word := os.Getenv(env)
	path, file := strings.CutPrefix(word, "@")
	if !file {
		arm(word)
		return
	}
	armFrom(path)
	go func() {
		for range time.Tick(lookEvery) {
			armFrom(path)
		}
	}()
})

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

// Due counts a passing of a point, and reports whether the process must die at it.
func Due(name string) bool {
	takeOrders()
	armed.Lock()
	defer armed.Unlock()
	if name != armed.name || armed.left == 0 {
		return false
	}
	armed.left--
	return armed.left == 0
}

// Pass ends the process if the point called name is armed.
func Pass(name string) {
	if Due(name) {
		Die(name)
	}
}

// Die ends the process as if at the point called name.
func Die(name string) {
	fmt.Fprintln(os.Stderr, "failpoint:", name)
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {}
}

// BeforeCommit calls pass each time before db commits a transaction: when the
// transaction's pages are in the file and its head is not.
func BeforeCommit(db *bbolt.DB, pass func()) {
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
