package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// diskServer is one disk in its own process.
type diskServer struct {
	ledger *ledger
	faults *diskFaults
	dir    string
	mount  *fuse.Server
}

// serveDisk is the main function of roleDisk: it ends with its input.
func serveDisk(base, dir string) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	syscall.Umask(0) // the caller's is in the modes that the kernel gives
	l, err := openLedger(base)
	if err != nil {
		return err
	}
	s := &diskServer{ledger: l, faults: newDiskFaults(), dir: dir}
	answers := json.NewEncoder(os.Stdout)
	if err := answers.Encode(answerOf(diskAnswer{}, s.begin())); err != nil || s.mount == nil {
		return errors.Join(err, s.end())
	}
	requests := json.NewDecoder(os.Stdin)
	for {
		var r diskRequest
		if err := requests.Decode(&r); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return errors.Join(err, s.end())
		}
		a, err := s.do(r)
		if err := answers.Encode(answerOf(a, err)); err != nil {
			return errors.Join(err, s.end())
		}
	}
}

func answerOf(a diskAnswer, err error) diskAnswer {
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

func (s *diskServer) do(r diskRequest) (a diskAnswer, err error) {
	switch r.Do {
	case diskSet:
		s.faults.set(r.Fault)
		return a, nil
	case diskLose:
		return s.lose(r.Seed)
	}
	return a, fmt.Errorf("cannot do %q", r.Do)
}

// begin mounts. Nothing is cached for longer than in the kernel's own page cache, which is empty for a new mount.
func (s *diskServer) begin() error {
	brief := time.Second
	root := &diskNode{at: s}
	mount, err := fs.Mount(s.dir, root, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMountStrict: true, AllowOther: true, Name: "jepsen-lite",
			FsName: s.ledger.data, MaxWrite: 1 << 20, DisableXAttrs: true, Logger: log.New(io.Discard, "", 0)},
		EntryTimeout: &brief, AttrTimeout: &brief,
		RootStableAttr: &fs.StableAttr{Ino: inodeAt(s.ledger.data), Mode: syscall.S_IFDIR},
	})
	if err == nil {
		s.mount = mount
	}
	return err
}

// maxLose is how long the dead process's files may take to be closed.
const maxLose = 10 * time.Second

// lose unmounts, so that no cache survives, destroys the data that was not synced, and mounts again.
func (s *diskServer) lose(seed uint64) (a diskAnswer, err error) {
	for deadline := time.Now().Add(maxLose); ; time.Sleep(20 * time.Millisecond) {
		if err = s.mount.Unmount(); err == nil {
			break
		}
		if time.Now().After(deadline) {
			return a, fmt.Errorf("a file is still open: %w", err)
		}
	}
	var r *rand.Rand
	if seed != 0 {
		r = rand.New(rand.NewPCG(seed, 3))
	}
	a.Lost, err = s.ledger.lose(r)
	return a, errors.Join(err, s.begin())
}

// end releases all waiting calls and unmounts, whatever is still open.
func (s *diskServer) end() error {
	s.faults.set(diskFault{})
	if s.mount == nil {
		return nil
	}
	err := s.mount.Unmount()
	if err != nil {
		err = unix.Unmount(s.dir, unix.MNT_DETACH)
	}
	return err
}
