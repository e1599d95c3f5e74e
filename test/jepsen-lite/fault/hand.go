package fault

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// Hand is one worker: a place with one process at a time.
type Hand struct {
	*Process
	place *place
	mu    sync.Mutex
	rand  *rand.Rand
	// lives counts its processes.
	lives int
	// id and secret may outlive a process: then the next one gets its leases back.
	id     string
	secret []byte
}

// Life is the identity of the next process of a hand.
type Life struct {
	Name, ID string
	Secret   []byte
	Seed     uint64
}

// NewHand returns a worker that has not been started. r draws its ids, command makes its
// next process, died is called with the exit of one that ended by itself.
func NewHand(rec *check.Recorder, network Network, dir, name string, r *rand.Rand,
	command func(h *Hand) (*exec.Cmd, func(), error), died func(h *Hand, exit string)) (*Hand, error) {
	at, err := network.Place(name)
	if err != nil {
		return nil, err
	}
	h := &Hand{place: at, rand: r}
	h.Process = &Process{
		Name: name, rec: rec, log: filepath.Join(dir, name+".log"), keeper: at.keeper,
		make: func() (*exec.Cmd, func(), error) { return command(h) },
		died: func(exit string) { died(h, exit) },
	}
	h.Renew()
	return h, nil
}

// Renew gives the next process another id.
func (h *Hand) Renew() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.id = fmt.Sprintf("%s-%08x", h.Name, h.rand.Uint32())
	h.secret = make([]byte, 32)
	for i := range h.secret {
		h.secret[i] = byte(h.rand.Uint32())
	}
}

// WorkerID returns the id of its process, or of the next one.
func (h *Hand) WorkerID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.id
}

// NextLife returns the identity of the next process.
func (h *Hand) NextLife() Life {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lives++
	return Life{Name: fmt.Sprintf("%s.%d", h.Name, h.lives), ID: h.id, Secret: h.secret, Seed: h.rand.Uint64()}
}

// Command makes a command that runs at the worker's place.
func (h *Hand) Command(binary string, args ...string) *exec.Cmd {
	return h.place.command(binary, args...)
}
