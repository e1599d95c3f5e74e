package transport

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestPool checks that any number of functions run concurrently. A limited number of goroutines is kept for the next
// ones, and they end with the pool.
func TestPool(t *testing.T) {
	var c pool
	idle := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.idle)
	}
	eventually := func(what string, cond func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !cond(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s did not happen: %d are idle", what, idle())
			}
		}
	}
	before := runtime.NumGoroutine()
	for range 100 { // one after the other
		done := make(chan struct{})
		c.run(func() { close(done) })
		<-done
		eventually("being idle", func() bool { return idle() == 1 })
	}
	var begun, all sync.WaitGroup
	gate := make(chan struct{})
	for range 2 * poolIdle {
		begun.Add(1)
		all.Add(1)
		c.run(func() {
			defer all.Done()
			begun.Done()
			<-gate
		})
	}
	begun.Wait() // each has begun while none has ended
	close(gate)
	all.Wait()
	eventually("keeping as many as are kept", func() bool { return idle() == poolIdle })
	held := make(chan struct{})
	c.run(func() { <-held })
	c.close()
	close(held)
	c.run(func() {})
	eventually("the end of all", func() bool { return runtime.NumGoroutine() <= before })
}
