package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rotasched/rota/test/rig"
)

const (
	// maxRun bounds a run, maxProbe one probe, maxPlanted one that finds the defences removed.
	maxRun     = 4 * time.Minute
	maxProbe   = 20 * time.Second
	maxPlanted = 2 * time.Second
	// minProbes is the minimum number of probes in a run, and maxSaid the maximum length of an answer that is shown.
	minProbes = 60
	maxSaid   = 110
)

// probe is one attempt.
type probe struct {
	name string
	// try returns how it was refused, and an error if the defence did not hold.
	try func(ctx context.Context, s *scene) (said string, err error)
	// bites means that it must report an error where the defences are removed.
	bites bool
}

// actor is a row of SECURITY §1.
type actor struct {
	name, never string
	probes      []probe
}

// actors returns all rows, in the order in which they run.
func actors() []actor {
	unknown, captured := memberProbes()
	return []actor{
		{"stranger", "data, a crash, memory", append(strangerCalls(), strangerBytes()...)},
		{"web page in an operator's browser", "the operator's reach", pageProbes()},
		{"holder of a credential that does not count", "any right", append(tokenProbes(), certificateProbes()...)},
		{"finder of a browser session's link or cookie", "a session that is not its own", sessionProbes()},
		{"client", "another tenant's objects, events, counts", append(clientProbes(), webProbes()...)},
		{"client that may make tokens", "more rights than its own", clerkProbes()},
		{"worker", "another's lease", workerProbes()},
		{"unknown or removed node", "Raft, state, forwarding", unknown},
		{"captured member", "another node's name", captured},
		{"thief of disk or backup", "a usable credential", thiefProbes()},
		{"writer to the backup store", "an unnoticed forged one", storeProbes()},
		{"account that runs a node", "root without an event", accountProbes()},
		{"holder of the gossip key, or not", "membership, a crash", gossipProbes()},
	}
}

func main() {
	binary := flag.String("rota", "", "binary of rota; without it one is built")
	plant := flag.Bool("plant", false, "open the doors, and see that the probes notice")
	flag.Parse()
	if err := bounded(*binary, *plant); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

// bounded runs until a signal, and for at most maxRun.
func bounded(binary string, plant bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, maxRun)
	defer cancel()
	return run(ctx, binary, plant, os.Stdout)
}

// run starts a cluster, lets the actors run and ends it.
func run(ctx context.Context, binary string, plant bool, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "rota-hostile-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if binary == "" {
		binary, err = rig.Build(dir)
	} else {
		binary, err = filepath.Abs(binary)
	}
	if err != nil {
		return err
	}
	began := time.Now()
	s := &scene{dir: dir, binary: binary, plant: plant}
	defer s.end()
	if err := s.begin(ctx); err != nil {
		return fmt.Errorf("start the cluster: %w", err)
	}
	fmt.Fprintf(out, "three nodes, two tenants, ready after %.1f s\n", time.Since(began).Seconds())
	var t tally
	for _, a := range actors() {
		if plant {
			t.planted(ctx, out, s, a)
			continue
		}
		t.play(ctx, out, s, a)
	}
	return t.verdict(out, plant, time.Since(began))
}

// tally counts the probes that held, and keeps the others for the last lines.
type tally struct {
	played, held int
	open         []string
}

// miss records a defence that did not hold, and prints it at that point.
func (t *tally) miss(out io.Writer, format string, args ...any) {
	said := fmt.Sprintf(format, args...)
	t.open = append(t.open, said)
	fmt.Fprintln(out, said)
}

// play runs an actor's probes, and checks the cluster after them.
func (t *tally) play(ctx context.Context, out io.Writer, s *scene, a actor) {
	fmt.Fprintf(out, "\n%s: never %s\n", a.name, a.never)
	before, err := s.look(ctx)
	if err != nil {
		t.miss(out, "  DID NOT HOLD  %s: the cluster, before: %v", a.name, err)
		return
	}
	for _, p := range a.probes {
		said, err := p.play(ctx, s)
		t.played++
		if err != nil {
			t.miss(out, "  DID NOT HOLD  %s: %v", p.name, err)
			continue
		}
		t.held++
		fmt.Fprintf(out, "  held          %s: %s\n", p.name, short(said))
	}
	after, err := s.settle(ctx, before)
	if err != nil {
		t.miss(out, "  DID NOT HOLD  %s: the cluster, behind them: %v", a.name, err)
		return
	}
	fmt.Fprintf(out, "  the cluster   %s\n", after.against(before))
}

// planted runs the probes that must notice that the defences are removed.
func (t *tally) planted(ctx context.Context, out io.Writer, s *scene, a actor) {
	for _, p := range a.probes {
		if !p.bites {
			continue
		}
		t.played++
		if said, err := p.play(ctx, s); err == nil {
			t.miss(out, "NOTICED NOTHING  %s: %s: %s", a.name, p.name, short(said))
		} else {
			t.held++
			fmt.Fprintf(out, "noticed          %s: %s: %s\n", a.name, p.name, short(err.Error()))
		}
	}
}

func (t *tally) verdict(out io.Writer, plant bool, took time.Duration) error {
	word, least := "held", minProbes
	if plant {
		word, least = "noticed the open doors", 1
	}
	fmt.Fprintf(out, "\n%d probes in %.1f s: %d %s, %d did not\n", t.played, took.Seconds(), t.held, word, len(t.open))
	switch {
	case len(t.open) > 0:
		return fmt.Errorf("%d did not:\n%s", len(t.open), strings.Join(t.open, "\n"))
	case t.played < least:
		return fmt.Errorf("played %d probes, want at least %d", t.played, least)
	}
	return nil
}

// play runs one probe, within its time limit.
func (p *probe) play(ctx context.Context, s *scene) (string, error) {
	most := maxProbe
	if s.plant {
		most = maxPlanted // an accepted call may go on forever
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return p.try(ctx, s)
}

// short cuts an answer to one line.
func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "…"
	}
	return text
}
