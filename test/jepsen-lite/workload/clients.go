package workload

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

// clients are the worker processes.
type clients struct {
	rec     *check.Recorder
	cluster *fault.Cluster
	hands   []*fault.Hand
	reading sync.WaitGroup
	// calm is when handlers stop to fail on purpose.
	calm int64
	// badges are the workers' badges, where the cluster is locked.
	badges map[string]*fault.Badge
}

// admit makes each worker's token.
func (c *clients) admit(ctx context.Context) (err error) {
	for _, h := range c.hands {
		if c.badges[h.Name], err = c.cluster.NewBadge(ctx, h.Name, "worker", true); err != nil {
			return err
		}
	}
	return nil
}

// newClients creates them without starting them.
func newClients(rec *check.Recorder, k *fault.Cluster, network fault.Network, dir string, count int,
	seed uint64) (*clients, error) {
	c := &clients{rec: rec, cluster: k, badges: make(map[string]*fault.Badge)}
	for i := range count {
		h, err := fault.NewHand(rec, network, dir, fmt.Sprintf("w%d", i+1), rand.New(rand.NewPCG(seed, uint64(1000+i))),
			c.command, c.died)
		if err != nil {
			return nil, err
		}
		c.hands = append(c.hands, h)
	}
	return c, nil
}

// command makes the next process: this program itself, as a worker. Once it has started, its output is only its own, so
// that the reading ends with it.
func (c *clients) command(h *fault.Hand) (*exec.Cmd, func(), error) {
	life := h.NextLife()
	c.rec.With(func(history *check.History) { history.Holds(life.ID, workerSlots+workerSlots/prefetchPart) })
	config := workerConfig{
		Name: life.Name, ID: life.ID, Secret: life.Secret, Addrs: c.cluster.Addresses(),
		Entrance: c.cluster.Entrance(c.badges[h.Name]), Slots: workerSlots, Seed: life.Seed, Base: c.rec.Base,
		Calm: c.calm,
	}
	for _, q := range queues {
		config.Queues = append(config.Queues, q.name)
	}
	line, err := json.Marshal(config)
	if err != nil {
		return nil, nil, err
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	cmd := h.Command("/usr/bin/env", fault.RoleKey+"="+fault.RoleWorker, binary)
	input, tell, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	if _, err := tell.Write(append(line, '\n')); err != nil { // far less than a pipe holds
		return nil, nil, err
	}
	cmd.Stdin, cmd.Stdout = input, w
	c.reading.Go(func() {
		c.listen(config.Name, r)
		_ = tell.Close() // not before: an engine shows a container's output as long as its input is open
	})
	return cmd, func() { _ = errors.Join(w.Close(), input.Close()) }, nil
}

// listen reads the observations of a worker process.
func (c *clients) listen(name string, r io.ReadCloser) {
	defer r.Close()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var op check.Op
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			c.rec.Note("%s wrote a line that is none: %q", name, check.Short(lines.Text()))
			continue
		}
		c.rec.Add(op)
	}
}

// died replaces a worker that ended by itself.
func (c *clients) died(h *fault.Hand, exit string) {
	c.rec.Note("worker %s ended by itself (%s): %s", h.Name, exit, h.LastWords())
	time.Sleep(time.Second)
	h.Renew()
	_ = h.Start()
}

// begin starts all.
func (c *clients) begin() error {
	for _, h := range c.hands {
		if err := h.Start(); err != nil {
			return err
		}
	}
	return nil
}

// heal makes all hands work again.
func (c *clients) heal() error {
	for _, h := range c.hands {
		h.LetGo()
	}
	return c.begin()
}

// End ends all properly and waits for their last output.
func (c *clients) End() {
	var all sync.WaitGroup
	for _, h := range c.hands {
		all.Go(func() {
			if !h.Retire(15 * time.Second) {
				c.rec.Note("worker %s did not end within 15 s of SIGTERM", h.Name)
			}
		})
	}
	all.Wait()
	c.reading.Wait()
}
