package fault

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// rotPatience is how long a node may take to find the damage, or to read all of its disk twice without any: it
	// scrubs every scrubEvery.
	rotPatience = 45 * time.Second
	scrubEvery  = "2s"
	// condemnedAfter ends for damage in a row are enough: the node is not started again.
	condemnedAfter = 2
)

// rot damages one file of a node that is down, as a forgetful disk does, and starts it again. The node may find it and
// end or not start, and its operator then replaces it with a new node, as the manual requires; or it may repair the
// damage by itself. One node at a time is rotten: until it is sound again, or its successor votes, no other rots, even
// for the rest of the run. Otherwise a majority could lose acknowledged data, which no system can promise to survive.
func rot(ctx context.Context, w *World, r *rand.Rand) blow {
	k := w.Cluster
	if k.Founders < 3 || !k.beginRot() {
		return blow{}
	}
	founders := k.All()[:k.Founders]
	s := founders[r.IntN(len(founders))]
	s.keep()
	note, err := damageOne(k.dataOf(s), r)
	if err != nil { // the disk may fail, too: part of the damage may be done
		note += err.Error()
	}
	s.rotten.suspect()
	s.free()
	b := blow{targets: []string{s.ID}, note: note}
	b.mend = func() error { return k.cure(s) }
	if b.err = s.Start(); b.err == nil {
		b.note += "; " + k.watchRot(ctx, s)
		w.Rec.Note("%s rotted: %s", s.ID, b.note)
	}
	return b
}

// beginRot reports whether no node is rotten, and records that one is now.
func (k *Cluster) beginRot() bool {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	if k.rotting {
		return false
	}
	k.rotting = true
	return true
}

func (k *Cluster) endRot() {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	k.rotting, k.replacing = false, nil
}

// damageOne flips bits of a random file below dir, or cuts its end off.
func damageOne(dir string, r *rand.Rand) (string, error) {
	kinds := make(map[string][]string)
	var names []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || entry.Name() == "LOCK" {
			return err
		}
		kind := entry.Name()
		if filepath.Dir(path) != dir {
			kind = filepath.Base(filepath.Dir(filepath.Dir(path))) + "/" + filepath.Ext(entry.Name())
		}
		if kinds[kind] == nil {
			names = append(names, kind)
		}
		kinds[kind] = append(kinds[kind], path)
		return nil
	})
	if err != nil || len(names) == 0 {
		return "", errors.Join(err, errors.New("no file to damage"))
	}
	paths := kinds[names[r.IntN(len(names))]]
	path := paths[r.IntN(len(paths))]
	name, _ := filepath.Rel(dir, path)
	text, err := damageFile(path, r)
	return name + ": " + text, err
}

// damageFile does not sync: on a disk that hangs it would hang, too.
func damageFile(path string, r *rand.Rand) (text string, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	size := info.Size()
	if size == 0 {
		return "is empty", nil
	}
	if r.IntN(4) == 0 {
		left := r.Int64N(size)
		return fmt.Sprintf("cut from %d to %d bytes", size, left), f.Truncate(left)
	}
	// Damage to an empty file would have no effect.
	var at int64
	one := make([]byte, 1)
	flips := 1 + r.IntN(8)
	for range flips {
		for range 200 {
			at = r.Int64N(size)
			if _, err := f.ReadAt(one, at); err != nil {
				return "", err
			}
			if one[0] != 0 {
				break
			}
		}
		one[0] ^= 1 << r.IntN(8)
		if _, err := f.WriteAt(one, at); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d bits flipped, the last at %d of %d", flips, at, size), nil
}

// watchRot waits until a suspect ended for its damage, or has read all of its disk without any: once to repair it, and
// once more to the end of a pass that began later.
func (k *Cluster) watchRot(ctx context.Context, s *Server) string {
	var clean scrubs
	for deadline := time.Now().Add(rotPatience); time.Now().Before(deadline); {
		if s.rotten.condemned() {
			return "it refused"
		}
		passes, err := s.metric(ctx, "rota_scrub_passes_total")
		damaged, derr := s.metric(ctx, "rota_scrub_damaged_total")
		if clean.saw(passes, damaged, errors.Join(err, derr)) {
			s.rotten.acquit()
			return fmt.Sprintf("it scrubbed %.0f times and found %.0f", passes, damaged)
		}
		if !Rest(context.WithoutCancel(ctx), 250*time.Millisecond) {
			break
		}
	}
	return "it neither refused nor scrubbed"
}

// scrubs holds the reports of one life of a node about its scrubbing.
type scrubs struct {
	known          bool
	first, damaged float64
}

// saw reports whether two passes ended since the last damage was found.
func (s *scrubs) saw(passes, damaged float64, err error) bool {
	if err != nil {
		s.known = false // it is down; the next reports are from another life
		return false
	}
	if !s.known || passes < s.first || damaged != s.damaged {
		s.known, s.first, s.damaged = true, passes, damaged
	}
	return passes >= s.first+2
}

// metric returns the sum of a metric's series.
func (s *Server) metric(ctx context.Context, name string) (sum float64, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	answer, err := s.Look(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(io.LimitReader(answer.Body, 8<<20))
	err = errors.New(name + " is missing")
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, name) || len(line) > len(name) && line[len(name)] != ' ' && line[len(name)] != '{' {
			continue
		}
		value, perr := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		sum, err = sum+value, perr
	}
	return sum, errors.Join(err, lines.Err())
}
