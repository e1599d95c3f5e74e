package secret

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// lookEvery is how often files that may change during a process are checked.
const lookEvery = 10 * time.Second

// Follow calls look immediately, every ten seconds, and at each SIGHUP, until ctx ends: replaced keys and certificates
// take effect without a restart.
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
