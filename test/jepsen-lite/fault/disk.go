package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// roleDisk serves one node's data directory as a disk that can fail. It is a separate process, for three reasons: a
// program that waits on a file system that it serves itself can stop for good (the runtime stops all threads, one of
// them waits for a page); mounts must disappear however the run ends; and a hung disk must not hang any other process.
const roleDisk = "disk"

// diskSize is the size that every disk claims, regardless of the machine: so the watermarks depend on the run alone.
// diskFree of it is free.
const (
	diskSize = 16 << 30
	diskFree = 12 << 30
)

// The requests to a disk.
const (
	diskSet  = "set"
	diskLose = "lose"
)

// diskRequest and diskAnswer are lines on the process's input and output.
type diskRequest struct {
	Do    string    `json:"do"`
	Fault diskFault `json:"fault,omitzero"`
	// Seed determines which data a loss of power leaves; 0 leaves none.
	Seed uint64 `json:"seed,omitempty"`
}

type diskAnswer struct {
	Error string `json:"error,omitempty"`
	Lost  lost   `json:"lost,omitzero"`
}

// lost counts the data that a loss of power destroyed.
type lost struct {
	Blocks int `json:"blocks"`
	Names  int `json:"names"`
	// Stayed counts blocks and names that were not synced but are still there.
	Stayed int `json:"stayed"`
}

// disk is the data directory of one node, mounted at dir.
type disk struct {
	dir, base string
	cmd       *exec.Cmd
	in        io.WriteCloser
	mu        sync.Mutex
	requests  *json.Encoder
	answers   *json.Decoder
	faults    *faultStack
}

// startDisk mounts a new, empty disk at dir; it is kept below base.
func startDisk(base, dir string) (*disk, error) {
	if err := errors.Join(os.MkdirAll(base, 0o700), os.MkdirAll(dir, 0o700)); err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe", base, dir)
	cmd.Env = append(os.Environ(), RoleKey+"="+roleDisk)
	// It ends with its input, not by a signal: otherwise the mount would stay.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("serve a disk: %w", err)
	}
	d := &disk{dir: dir, base: base, cmd: cmd, in: in, requests: json.NewEncoder(in), answers: json.NewDecoder(out)}
	d.faults = &faultStack{set: func(f diskFault) error {
		_, err := d.ask(diskRequest{Do: diskSet, Fault: f})
		return err
	}}
	var mounted diskAnswer
	if err := d.answers.Decode(&mounted); err != nil || mounted.Error != "" {
		_ = in.Close()
		return nil, errors.Join(err, fmt.Errorf("mount %s: %s", dir, mounted.Error), cmd.Wait())
	}
	return d, nil
}

func (d *disk) ask(r diskRequest) (a diskAnswer, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.requests.Encode(r); err != nil {
		return a, fmt.Errorf("ask the disk %s: %w", d.dir, err)
	}
	if err := d.answers.Decode(&a); err != nil {
		return a, fmt.Errorf("ask the disk %s: %w", d.dir, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("disk %s: %s", d.dir, a.Error)
	}
	return a, nil
}

// lose cuts the power: no process may have a file of it open.
func (d *disk) lose(seed uint64) (lost, error) {
	a, err := d.ask(diskRequest{Do: diskLose, Seed: seed})
	return a.Lost, err
}

// close unmounts it and leaves its files in the mount's place.
func (d *disk) close() error {
	ended := make(chan error, 1)
	_ = d.in.Close()
	go func() { ended <- d.cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("the disk %s: %w", d.dir, err)
		}
	case <-time.After(20 * time.Second):
		return fmt.Errorf("the disk %s does not end", d.dir)
	}
	return errors.Join(os.Remove(d.dir), os.Rename(filepath.Join(d.base, "data"), d.dir), os.RemoveAll(d.base))
}

// canMakeDisks tries it, and leaves nothing behind.
func canMakeDisks() error {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "jepsen-lite-disk-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d, err := startDisk(filepath.Join(dir, "base"), filepath.Join(dir, "disk"))
	if err != nil {
		return errors.New(strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; "))
	}
	return d.close()
}

// faultStack joins the faults of nemeses that act on one disk at the same time: the worst of each applies.
type faultStack struct {
	set func(diskFault) error
	mu  sync.Mutex
	all []*diskFault
}

// begin adds a fault and returns the function that ends it.
func (s *faultStack) begin(f diskFault) (end func() error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := &f
	s.all = append(s.all, one)
	return func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, other := range s.all {
			if other == one {
				s.all = append(s.all[:i:i], s.all[i+1:]...)
			}
		}
		return s.set(s.joined())
	}, s.set(s.joined())
}

// clear ends all.
func (s *faultStack) clear() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = nil
	return s.set(diskFault{})
}

func (s *faultStack) joined() (j diskFault) {
	for _, f := range s.all {
		j.SyncDelayMs = max(j.SyncDelayMs, f.SyncDelayMs)
		j.SyncHang, j.FailWrites, j.Full = j.SyncHang || f.SyncHang, j.FailWrites || f.FailWrites, j.Full || f.Full
		j.FailSync = max(j.FailSync, f.FailSync)
		if f.FreeMiB > 0 && (j.FreeMiB == 0 || f.FreeMiB < j.FreeMiB) {
			j.FreeMiB = f.FreeMiB
		}
	}
	return j
}
