package rotatest

import (
	"testing/synctest"
	"time"

	"github.com/rotasched/rota/internal/virtualnet"
)

const (
	// strideMost is how long the nodes' chores pause at most where nothing is due. A leader stamps as
	// far ahead of its last entry (cluster.Environment.Leap).
	strideMost = time.Minute
	// strideLeast is what no stride is worth.
	strideLeast = 2 * time.Second
	// step is how much time passes between two looks where something goes on; strideEnds what a sweep
	// takes to be applied.
	step       = 250 * time.Millisecond
	strideEnds = 10 * time.Millisecond
	// dueTakes is within which time the cluster does what is due: the slowest chore looks once a second.
	dueTakes = 2 * time.Second
	// pingBytes are those of a frame that answers a sign of life of gRPC: nobody's doing.
	pingBytes = 17
)

// Advance lets time pass, and two seconds more, within which the cluster does what has come due. A day
// takes three nodes a few seconds of real time while no worker is connected; one that is beats every two
// seconds, and its cluster is awake.
func (c *Cluster) Advance(d time.Duration) {
	for end := time.Now().Add(d); ; {
		left := time.Until(end)
		if left <= 0 {
			break
		}
		if stride := min(c.idle(), left, strideMost); stride > strideLeast {
			c.pace.Coast(stride)
			time.Sleep(strideEnds)
		} else {
			time.Sleep(min(step, left))
		}
	}
	time.Sleep(dueTakes)
	synctest.Wait()
}

// idle returns for how long the cluster has nothing to do.
func (c *Cluster) idle() (most time.Duration) {
	for _, n := range c.nodes {
		if n != nil {
			most = max(most, n.Idle())
		}
	}
	return most
}

// heard wakes the cluster where a client calls.
func (c *Cluster) heard(from virtualnet.Host, bytes int) {
	if from == clientHost && bytes > pingBytes {
		c.pace.Wake()
	}
}
