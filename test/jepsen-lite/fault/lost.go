package fault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/rig"
)

// Permanent losses come after the run (workload/aftermath.go): a node with its disk, which autopilot removes (SPEC
// §13.10), and a majority of the disks, of which one survivor is recovered (docs/operations/quorum-lost.md).

// DeadAfter is how long a voter must be silent before autopilot may remove it, where that is shortened.
const DeadAfter = 10 * time.Second

// Heir returns the node whose disk was recovered, nil if none was.
func (k *Cluster) Heir() *Server {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	return k.heir
}

// newID returns the id of a node that is not used before or after.
func (k *Cluster) newID() string {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	k.Added++
	return fmt.Sprintf("n%d", k.Founders+k.Added)
}

// Fresh starts a node with a new id and an empty directory.
func (k *Cluster) Fresh() (*Server, error) {
	s, err := k.Make(k.newID())
	if err == nil {
		err = s.Start()
	}
	return s, err
}

// Stop ends all nodes properly. They may be started again.
func (k *Cluster) Stop() {
	k.close(true)
	k.each(func(s *Server) {
		s.LetGo()
		s.stop(check.MaxGoodbye)
	})
}

// Resume starts all members again, with autopilot's delay shortened, and waits until they serve.
func (k *Cluster) Resume(ctx context.Context) error {
	k.Mu.Lock()
	k.deadAfter, k.closing = DeadAfter, false
	k.Mu.Unlock()
	for _, s := range k.Members() {
		if err := s.Start(); err != nil {
			return err
		}
	}
	for _, s := range k.Members() {
		if err := k.Serves(ctx, s); err != nil {
			return fmt.Errorf("node %s does not serve: %w: %s", s.ID, err, s.LastWords())
		}
	}
	return nil
}

// HasAutopilot reports whether autopilot's patience can be shortened.
func (k *Cluster) HasAutopilot() bool { return k.testClock }

// Pause stops a node in mid-step, so that its disk falls behind.
func (s *Server) Pause() error { return s.pause() }

// Kill ends a node without warning. It stays a member.
func (s *Server) Kill() { s.kill() }

// Bury ends a node without warning and for good.
func (s *Server) Bury() { s.lose() }

// Wipe destroys the disk of a buried node.
func (s *Server) Wipe() error {
	dir := s.cluster.dataOf(s)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// offline runs a command of the binary in a node's place, on its stopped disk.
func (s *Server) offline(ctx context.Context, args ...string) ([]byte, error) {
	k := s.cluster
	cmd := s.place.command(k.Binary, append(args, "--data", k.dataOf(s), "-o", "json")...)
	if cmd.Env == nil {
		cmd.Env = rig.Inherited()
	}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("rota %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return out.Bytes(), nil
}

// Disk returns the contents of a stopped node's disk, as reported to an operator. The report is kept for others.
func (s *Server) Disk(ctx context.Context) (d check.Disk, err error) {
	out, err := s.offline(ctx, "operator", "recover", "--report")
	if err != nil {
		return d, err
	}
	err = errors.Join(json.Unmarshal(out, &d), os.WriteFile(s.report(), out, 0o600))
	return d, err
}

func (s *Server) report() string { return filepath.Join(s.cluster.Dir, s.ID+"-disk.json") }

// Recover turns the disk of a stopped node into a separate cluster, with the reports of other surviving disks, and
// starts it alone.
func (k *Cluster) Recover(ctx context.Context, heir *Server, others []*Server) (now check.Disk, err error) {
	args := []string{"operator", "recover", "--yes-lose-quorum"}
	for _, s := range others {
		if s != heir {
			args = append(args, "--others", s.report())
		}
	}
	out, err := heir.offline(ctx, args...)
	if err != nil {
		return now, err
	}
	if err := json.Unmarshal(out, &now); err != nil {
		return now, err
	}
	k.Mu.Lock()
	k.heir = heir
	k.Mu.Unlock()
	if err := heir.revive(); err != nil {
		return now, err
	}
	return now, k.Serves(ctx, heir)
}

// ComeBack starts a node that the recovered cluster has buried, until it reports that it is refused, and returns the
// text of that; none if it never does.
func (s *Server) ComeBack(ctx context.Context) (said string, err error) {
	before := len(s.allWords())
	if err := s.comeBack(); err != nil {
		return "", err
	}
	defer s.lose()
	for {
		text := s.allWords()[before:]
		for _, line := range strings.Split(text, "\n") {
			for _, words := range refusals {
				if strings.Contains(line, words) {
					return line, nil
				}
			}
		}
		if !Rest(ctx, 200*time.Millisecond) {
			return "", nil
		}
	}
}

// refusals are the messages of a node that is refused for its cluster or for its id.
var refusals = []string{"belongs to another cluster", "was removed from the cluster"}
