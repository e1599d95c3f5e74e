package rotatest

import (
	"testing/synctest"
	"time"

	"github.com/rotasched/rota/internal/virtualnet"
)

const (
	// maxStride bounds how long the nodes' periodic tasks pause while nothing is due. A leader stamps that far ahead
	// of its last entry (cluster.Environment.Leap).
	maxAdvance = time.Minute
	// minStride is the shortest stride worth making.
	minStride = 2 * time.Second
	// step is how much time passes between two checks while something is happening; strideEnds is the time for a sweep
	// to be applied.
	step       = 250 * time.Millisecond
	strideEnds = 10 * time.Millisecond
	// dueTakes is how soon the cluster runs due tasks: the slowest periodic task checks once a second.
	dueTakes = 2 * time.Second
	// pingBytes is the size of a frame that answers a gRPC ping, which is not activity.
	pingBytes = 17
)

// Advance lets time d pass, and two seconds more, in which the cluster runs the tasks that became due. A day takes
// three nodes a few seconds of real time while no worker is connected; a connected worker sends a beat every two
// seconds, which keeps the cluster awake.
func (c *Cluster) Advance(d time.Duration) {
	for end := time.Now().Add(d); ; {
		left := time.Until(end)
		if left <= 0 {
			break
		}
		if stride := min(c.idle(), left, maxAdvance); stride > minStride {
			c.pace.Coast(stride)
			time.Sleep(strideEnds)
		} else {
			time.Sleep(min(step, left))
		}
	}
	time.Sleep(dueTakes)
	synctest.Wait()
}

// idle returns how long the cluster has nothing to do.
func (c *Cluster) idle() (most time.Duration) {
	for _, n := range c.nodes {
		if n != nil {
			most = max(most, n.Idle())
		}
	}
	return most
}

// heard wakes the cluster when a client calls.
func (c *Cluster) heard(from virtualnet.Host, bytes int) {
	if from == clientHost && bytes > pingBytes {
		c.pace.Wake()
	}
}
