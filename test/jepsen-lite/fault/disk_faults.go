package fault

import (
	"sync"
	"syscall"
	"time"
)

// diskFault is what is wrong with a disk; the zero value is nothing.
type diskFault struct {
	// SyncDelayMs is how long an fsync takes; SyncHang has it take until the fault
	// is mended.
	SyncDelayMs int64 `json:"sync_delay_ms,omitempty"`
	SyncHang    bool  `json:"sync_hang,omitempty"`
	// FailSync has the n-th fsync from now on, counted from 1, fail with EIO.
	FailSync int `json:"fail_sync,omitempty"`
	// FailWrites has every write fail with EIO, and Full all that grow with ENOSPC.
	FailWrites bool `json:"fail_writes,omitempty"`
	Full       bool `json:"full,omitempty"`
	// FreeMiB is what statfs shows as free, where it is not 0.
	FreeMiB uint64 `json:"free_mib,omitempty"`
}

// diskFaults is the fault of now. One that is mended lets go at once what it held.
type diskFaults struct {
	mu      sync.Mutex
	now     diskFault
	changed chan struct{}
	syncs   int
	// failed counts what was refused.
	failed int
}

func newDiskFaults() *diskFaults { return &diskFaults{changed: make(chan struct{})} }

func (f *diskFaults) set(now diskFault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now, f.syncs = now, 0
	close(f.changed)
	f.changed = make(chan struct{})
}

// sync waits as long as an fsync takes now, and says how it ends.
func (f *diskFaults) sync() error {
	f.mu.Lock()
	f.syncs++
	if f.now.FailWrites || f.now.FailSync > 0 && f.syncs == f.now.FailSync {
		f.failed++
		f.mu.Unlock()
		return syscall.EIO
	}
	f.mu.Unlock()
	begin := time.Now()
	for {
		f.mu.Lock()
		now, changed := f.now, f.changed
		f.mu.Unlock()
		left := time.Duration(now.SyncDelayMs)*time.Millisecond - time.Since(begin)
		switch {
		case now.SyncHang:
			<-changed
		case left > 0:
			wait := time.NewTimer(left)
			select {
			case <-wait.C:
			case <-changed:
			}
			wait.Stop()
		default:
			return nil
		}
	}
}

func (f *diskFaults) writesFail() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now.FailWrites {
		f.failed++
	}
	return f.now.FailWrites
}

func (f *diskFaults) full() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now.Full
}

// grow reports whether a new file or directory finds room.
func (f *diskFaults) grow() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.now.FailWrites:
		return syscall.EIO
	case f.now.Full:
		return syscall.ENOSPC
	}
	return nil
}

// free is how many bytes statfs shows as free.
func (f *diskFaults) free() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.now.Full:
		return 0
	case f.now.FreeMiB > 0:
		return f.now.FreeMiB << 20
	}
	return diskFree
}
