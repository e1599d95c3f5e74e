package fault

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/rig"
)

// keeper manages processes that are not children of this program, as an engine manages its containers. The command that
// make returns only requests the process, shows its output and waits for its end.
type keeper interface {
	// ready is called before each start. started is called after it, and returns once signals reach the started
	// process.
	ready() error
	started() error
	tell(s syscall.Signal) error
}

// Process is a process that is started, killed, paused and started again. Several nemeses may call all of its methods
// at once.
type Process struct {
	Name string
	rec  *check.Recorder
	log  string
	// make returns the next command, and a function to call once it was started, or could not be; nil for nothing.
	make func() (cmd *exec.Cmd, started func(), err error)
	// died is called after an end that was not requested.
	died func(exit string)
	// stuck is called before a process that does not end is killed, patience after the request.
	stuck func(patience time.Duration)
	// keeper manages the process; nil for a child of this program.
	keeper keeper

	mu   sync.Mutex
	life *rig.Process
	// gone is closed once the end of this life is recorded.
	gone     chan struct{}
	expected bool
	// kept counts the callers that keep it from being started.
	kept int
	// pauses counts the callers that hold it; retired means that it is never started again.
	pauses  int
	retired bool
	// leaving means that its end is expected in every later life, too.
	leaving bool
}

// Start starts it if it is down.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life != nil || p.retired || p.kept > 0 {
		return nil
	}
	cmd, started, err := p.make()
	if err != nil {
		return err
	}
	if started != nil {
		defer started()
	}
	if p.keeper != nil {
		if err := p.keeper.ready(); err != nil {
			return err
		}
	}
	life, err := rig.Start(p.Name, cmd, p.log)
	if err != nil {
		return err
	}
	gone := make(chan struct{})
	p.life, p.gone, p.expected, p.pauses = life, gone, p.leaving, 0
	p.rec.Changed(p.Name, check.IsUp)
	go p.await(life, gone)
	if p.keeper != nil {
		if err := p.keeper.started(); err != nil {
			p.expected = true // the keeper failed
			return err
		}
	}
	return nil
}

// tell sends it a signal.
func (p *Process) tell(life *rig.Process, s syscall.Signal) error {
	if p.keeper != nil {
		return p.keeper.tell(s)
	}
	return life.Signal(s)
}

// await waits for the end of one life.
func (p *Process) await(life *rig.Process, gone chan struct{}) {
	<-life.Ended()
	p.mu.Lock()
	expected, retired := p.expected, p.retired
	if p.life == life {
		p.life = nil
	}
	state := check.IsDown
	if retired {
		state = check.IsGone
	}
	p.rec.Changed(p.Name, state)
	p.mu.Unlock()
	close(gone)
	if !expected && p.died != nil {
		p.died(life.State().String())
	}
}

// keep kills it and prevents its start until it is freed.
func (p *Process) keep() {
	p.mu.Lock()
	p.kept++
	p.mu.Unlock()
	p.kill()
}

func (p *Process) free() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept--
}

// kill ends it without warning.
func (p *Process) kill() { p.end(syscall.SIGKILL, 0) }

// stop asks it to end, and kills it if it does not end in time. It reports whether it ended by itself.
func (p *Process) stop(patience time.Duration) bool { return p.end(syscall.SIGTERM, patience) }

func (p *Process) end(s syscall.Signal, patience time.Duration) bool {
	p.mu.Lock()
	life, gone := p.life, p.gone
	p.expected = true
	p.mu.Unlock()
	if life == nil {
		return true
	}
	if s == syscall.SIGKILL {
		p.slay(life, gone)
		return true
	}
	_ = p.tell(life, s)
	select {
	case <-gone:
		return true
	case <-time.After(patience):
		if p.stuck != nil {
			p.stuck(patience)
		}
		p.slay(life, gone)
		return false
	}
}

// dump makes a process managed by a keeper end and write all its goroutines to its log, as they cannot be inspected
// from outside. It reports whether that worked.
func (p *Process) dump() bool {
	p.mu.Lock()
	life, gone := p.life, p.gone
	p.mu.Unlock()
	if p.keeper == nil || life == nil || p.tell(life, syscall.SIGQUIT) != nil {
		return false
	}
	select {
	case <-gone:
		return true
	case <-time.After(slayAgain):
		return false
	}
}

// slayAgain is how long a keeper may take to kill it.
const slayAgain = 5 * time.Second

// slay kills it until it is gone. A keeper is slower than a signal, and slower still to report the end: the process
// counts as down from the kill request, and again when it is gone.
func (p *Process) slay(life *rig.Process, gone chan struct{}) {
	if p.keeper != nil {
		p.rec.Changed(p.Name, check.IsDown)
	}
	for {
		err := p.tell(life, syscall.SIGKILL)
		select {
		case <-gone:
			return
		case <-time.After(slayAgain):
			p.rec.Note("%s is not gone %s after it was killed: %v", p.Name, slayAgain, err)
		}
	}
}

// Retire ends it for good.
func (p *Process) Retire(patience time.Duration) bool {
	p.mu.Lock()
	p.retired, p.expected = true, true
	p.mu.Unlock()
	p.LetGo()
	return p.end(syscall.SIGTERM, patience)
}

// lose ends it for good, without warning.
func (p *Process) lose() {
	p.mu.Lock()
	p.retired = true
	p.mu.Unlock()
	p.kill()
}

// revive starts one that was lost.
func (p *Process) revive() error {
	p.mu.Lock()
	p.retired = false
	p.mu.Unlock()
	return p.Start()
}

// comeBack starts a process that was lost. Any outcome is expected.
func (p *Process) comeBack() error {
	p.mu.Lock()
	p.leaving = true
	p.mu.Unlock()
	return p.revive()
}

// pause stops it in mid-step, resume lets it continue once no other caller holds it.
func (p *Process) pause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life == nil {
		return errors.New(p.Name + " is not running")
	}
	p.pauses++
	if p.pauses > 1 {
		return nil
	}
	p.rec.Changed(p.Name, check.IsPaused)
	if err := p.tell(p.life, syscall.SIGSTOP); err != nil {
		p.pauses = 0
		p.rec.Changed(p.Name, check.IsUp)
		return err
	}
	return nil
}

func (p *Process) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life == nil || p.pauses == 0 {
		return
	}
	if p.pauses--; p.pauses == 0 {
		p.goOn()
	}
}

// LetGo resumes it regardless of who holds it.
func (p *Process) LetGo() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life != nil && p.pauses > 0 {
		p.pauses = 0
		p.goOn()
	}
}

func (p *Process) goOn() {
	if err := p.tell(p.life, syscall.SIGCONT); err != nil && p.keeper != nil {
		p.rec.Note("%s does not go on: %v", p.Name, err)
	}
	p.rec.Changed(p.Name, check.IsUp)
}

// running reports whether it exists, paused or not.
func (p *Process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.life != nil
}

// awake reports whether it exists and is not paused.
func (p *Process) awake() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.life != nil && p.pauses == 0
}

// allWords returns the log of all its lives.
func (p *Process) allWords() string {
	text, _ := os.ReadFile(filepath.Clean(p.log))
	return string(text)
}

// LastWords returns the last lines of its log.
func (p *Process) LastWords() string {
	text := p.allWords()
	if i := strings.Index(text, "\npanic: "); i >= 0 {
		return text[i:min(len(text), i+2000)]
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-4):], " | ")
}
