package secret

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// lookEvery is how often files are looked at that may change under a process.
const lookEvery = 10 * time.Second

// Follow calls look now, every ten seconds, and at each SIGHUP, until ctx ends: keys and
// certificates that were replaced count without a restart.
func Follow(ctx context.Context, look func()) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		look()
		select {
		case <-tick.C:
		case <-hangup:
		case <-ctx.Done():
			return
		}
	}
}
