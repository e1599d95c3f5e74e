package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/test/rig"
)

const (
	// maxGrown is the memory that one actor's probes may use of a node, maxSettle the time for the cluster to return
	// to its earlier state.
	maxGrown  = 64 << 20
	maxSettle = 20 * time.Second
	// forgedTerm is the term of forged votes: no real term comes near it.
	forgedTerm = 0x7fff
)

// sight is the observed state of the cluster between two actors.
type sight struct {
	leader rota.NodeID
	term   uint64
	at     rota.Index
	// resident is each node's memory; empty if the system does not report it.
	resident map[string]int64
}

// look fails unless all nodes run, agree to the bit and have all acknowledged jobs.
func (s *scene) look(ctx context.Context) (*sight, error) {
	seen := &sight{resident: map[string]int64{}}
	for _, n := range s.nodes {
		if !n.Running() {
			return nil, fmt.Errorf("%s ended with %s: %s", n.ID, n.Life().State(), n.Life().LastWords(5))
		}
		seen.resident[n.ID] = resident(n.Life().PID())
	}
	status, err := s.root.Status(ctx)
	if err != nil {
		return nil, err
	}
	seen.leader, seen.term = status.Leader, status.Term
	if seen.leader == "" || seen.term >= forgedTerm || len(status.Nodes) != len(s.nodes) {
		return nil, fmt.Errorf("leader %q, term %d, %d nodes", seen.leader, seen.term, len(status.Nodes))
	}
	verdict, err := s.root.Verify(ctx)
	if err != nil {
		return nil, err
	}
	if seen.at = verdict.Index; !verdict.Equal {
		return nil, fmt.Errorf("digests differ: %+v", verdict.Nodes)
	}
	for _, v := range verdict.Nodes {
		if len(v.Violations) > 0 {
			return nil, fmt.Errorf("%s reports violations: %v", v.ID, v.Violations)
		}
	}
	for _, id := range s.acknowledged {
		if _, err := s.root.Job(ctx, id); err != nil {
			return nil, fmt.Errorf("acknowledged job %s: %w", id, err)
		}
	}
	held, err := s.root.Job(ctx, "umbrella-held")
	if err == nil && (held.State != rota.JobRunning || len(held.Attempts) > 0) {
		err = fmt.Errorf("the lease of umbrella-held: it is %s after %d attempts", held.State, len(held.Attempts))
	}
	return seen, err
}

// settle waits until the cluster is in the same state as before.
func (s *scene) settle(ctx context.Context, before *sight) (seen *sight, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxSettle)
	defer cancel()
	err = rig.Until(ctx, func() error {
		var err error
		if seen, err = s.look(ctx); err != nil {
			return err
		}
		for id, now := range seen.resident {
			if grown := now - before.resident[id]; grown > maxGrown {
				return fmt.Errorf("%s took %d MiB", id, grown>>20)
			}
		}
		return nil
	})
	if err != nil {
		err = errors.Join(err, errors.New("it is not as it was"))
	}
	return seen, err
}

// against describes the changes of the cluster.
func (now *sight) against(before *sight) string {
	most := int64(0)
	for id, bytes := range now.resident {
		most = max(most, bytes-before.resident[id])
	}
	term := fmt.Sprintf("term %d as before", now.term)
	if now.term != before.term {
		term = fmt.Sprintf("term %d, before %d: an election of its own", now.term, before.term)
	}
	return fmt.Sprintf("%s leads, %s, digests equal at %d, all jobs there, at most %d MiB more", now.leader, term,
		now.at, most>>20)
}

// resident returns the memory of a process; 0 if the system does not report it.
func resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10
		}
	}
	return 0
}
