package fault

import (
	"sync"
	"syscall"
	"time"
)

// diskFault is the fault of a disk; the zero value is none.
type diskFault struct {
	// SyncDelayMs is how long an fsync takes; SyncHang makes it block until the fault ends.
	SyncDelayMs int64 `json:"sync_delay_ms,omitempty"`
	SyncHang    bool  `json:"sync_hang,omitempty"`
	// FailSync makes the n-th fsync from now on, counted from 1, fail with EIO.
	FailSync int `json:"fail_sync,omitempty"`
	// FailWrites makes every write fail with EIO, and Full makes all writes that grow a file fail with ENOSPC.
	FailWrites bool `json:"fail_writes,omitempty"`
	Full       bool `json:"full,omitempty"`
	// FreeMiB is the free space that statfs reports, if it is not 0.
	FreeMiB uint64 `json:"free_mib,omitempty"`
}

// diskFaults is the current fault. When it ends, it releases blocked calls at once.
type diskFaults struct {
	mu      sync.Mutex
	now     diskFault
	changed chan struct{}
	syncs   int
	// failed counts the refused calls.
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

// sync waits as long as an fsync takes now, and returns its result.
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

// grow returns an error if there is no room for a new file or directory.
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

// free returns the number of bytes that statfs shows as free.
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
