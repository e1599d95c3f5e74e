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

// ROTA_FAILPOINT=name, or name:n, has this process kill itself when it passes the
// point for the first, or n-th, time. ROTA_FAILPOINT=@file has it look for such a
// line in a file all the time, which it takes away: so a test arms a node in the
// role that it happens to have. One point is armed at a time.
//
// The process ends by SIGKILL, as by a power cut: os.Exit was refused, as a runtime
// that still runs writes, answers and releases locks until it is gone.
const env = "ROTA_FAILPOINT"

// lookEvery is how often the file is looked for.
const lookEvery = 5 * time.Millisecond

var armed struct {
	sync.Mutex
	name string
	left int
}

// takeOrders comes with the first point that is passed: a server begins anew as the same process before it does anything,
// and what was taken before would be lost with it.
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

// Due counts a passing of a point, and reports whether it is the one to die at.
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
