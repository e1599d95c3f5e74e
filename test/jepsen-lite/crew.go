package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/rotasched/rota"
)

// crew is the worker processes.
type crew struct {
	rec     *recorder
	cluster *cluster
	hands   []*hand
	reading sync.WaitGroup
	// calm is when handlers stop to fail on purpose.
	calm int64
}

// hand is one place in the crew, with a process in it, one after the other.
type hand struct {
	*process
	place *place
	mu    sync.Mutex
	rand  *rand.Rand
	life  int
	// id and secret may outlive a process: then the next one gets its leases back.
	id     string
	secret []byte
}

// newCrew makes the crew without starting it.
func newCrew(rec *recorder, k *cluster, network network, dir string, count int, seed uint64) (*crew, error) {
	c := &crew{rec: rec, cluster: k}
	for i := range count {
		name := fmt.Sprintf("w%d", i+1)
		at, err := network.place(name)
		if err != nil {
			return nil, err
		}
		h := &hand{place: at, rand: rand.New(rand.NewPCG(seed, uint64(1000+i)))}
		h.process = &process{
			name: name, rec: rec, log: filepath.Join(dir, name+".log"),
			make:   func() (*exec.Cmd, func(), error) { return c.command(h) },
			died:   func(exit string) { c.died(h, exit) },
			keeper: at.keeper,
		}
		h.renew()
		c.hands = append(c.hands, h)
	}
	return c, nil
}

// renew gives the next process another id.
func (h *hand) renew() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.id = fmt.Sprintf("%s-%08x", h.name, h.rand.Uint32())
	h.secret = make([]byte, 32)
	for i := range h.secret {
		h.secret[i] = byte(h.rand.Uint32())
	}
}

// command makes the next process: this very program, as a worker. Once it has
// started, its output is only its own, so that the reading ends with it.
func (c *crew) command(h *hand) (*exec.Cmd, func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.life++
	config := workerConfig{
		Name: fmt.Sprintf("%s.%d", h.name, h.life), ID: h.id, Secret: h.secret, Addrs: c.cluster.addresses(),
		Slots: 16, Seed: h.rand.Uint64(), Base: c.rec.base, Calm: c.calm,
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
	cmd := h.place.command("/usr/bin/env", roleKey+"="+roleWorker, binary)
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

// listen takes what a worker process saw.
func (c *crew) listen(name string, r io.ReadCloser) {
	defer r.Close()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var op Op
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			c.rec.note("%s wrote a line that is none: %q", name, short(lines.Text()))
			continue
		}
		c.rec.add(op)
	}
}

// died has a worker that ended by itself replaced.
func (c *crew) died(h *hand, exit string) {
	c.rec.note("worker %s ended by itself (%s): %s", h.name, exit, h.lastWords())
	time.Sleep(time.Second)
	h.renew()
	_ = h.start()
}

// begin starts all.
func (c *crew) begin() error {
	for _, h := range c.hands {
		if err := h.start(); err != nil {
			return err
		}
	}
	return nil
}

// heal has all hands at work again.
func (c *crew) heal() error {
	for _, h := range c.hands {
		h.letGo()
	}
	return c.begin()
}

// end ends all properly and waits for their last words.
func (c *crew) end() {
	var all sync.WaitGroup
	for _, h := range c.hands {
		all.Go(func() {
			if !h.retire(15 * time.Second) {
				c.rec.note("worker %s did not end within 15 s of SIGTERM", h.name)
			}
		})
	}
	all.Wait()
	c.reading.Wait()
}

// names of all queues, for raw workers.
func queueNames() []rota.QueueName {
	var names []rota.QueueName
	for _, q := range queues {
		names = append(names, q.name)
	}
	return names
}
