package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/limits"
)

const (
	// exitDeclines is the exit code by which a command gives its job back.
	exitDeclines = 75
	// ExecGrace is the time between SIGTERM and SIGKILL.
	ExecGrace = 5 * time.Second
	// brokenGrace is that where the lease has a grace: 2 s after its end the cluster may
	// take nothing of it to run any more (SPEC §16.7).
	brokenGrace = time.Second
	// execPoll is how often a process group in its grace is looked at.
	execPoll = 50 * time.Millisecond
)

// ErrDeclined says that the command declined its job.
var ErrDeclined = errors.New("declined by the command")

// Execution is one run of --exec for one job.
type Execution struct {
	Command string
	Job     rota.JobID
	Typ     rota.JobType
	Attempt int32
	Token   rota.Token
	Payload []byte
	headers map[string]string
	// grace is the time between SIGTERM and SIGKILL; 0 is execGrace.
	grace  time.Duration
	Stderr io.Writer
	// Log is the attempt's, which keeps stderr.
	Log io.Writer
	// Pass names variables of the worker's environment that the command gets as well.
	Pass []string
	// Parents are what a workflow's node is given of its parents; none for any other job.
	Parents []rota.ParentOutput
	// Spend is called with each total that the command left; nil ignores them.
	Spend func(name string, total rota.Cost) error
	// Children are what a node's command left to join its workflow: run sets them.
	Children *rota.Growth
}

// Run runs the command to its end and gives its output. When ctx ends first,
// the lease is lost: the whole process group is told to end, then made to.
func (e *Execution) Run(ctx context.Context) ([]byte, error) {
	output := &boundedBuffer{most: rota.MaxPayloadBytes}
	tail := &tailBuffer{most: limits.MaxErrorBytes / 2}
	cmd := exec.Command("sh", "-c", e.Command)
	cmd.Stdin = bytes.NewReader(e.Payload)
	cmd.Stdout = output
	cmd.Stderr = io.MultiWriter(tail, e.Log, e.Stderr)
	env, remove, err := e.environment()
	if err != nil {
		return nil, err
	}
	defer remove()
	left, err := e.newLeft()
	if err != nil {
		return nil, err
	}
	defer left.remove()
	cmd.Env = slices.Concat(Passed(os.Environ(), e.Pass), env, left.environment())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// What the command left in the background may hold its pipes open.
	cmd.WaitDelay = ExecGrace
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start sh: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		endGroup(cmd.Process.Pid, cli.Or(e.grace, ExecGrace))
		kept, err := e.result(err, output, tail)
		if err = left.asks.of(err, e.Spend); err == nil && left.children != nil {
			e.Children, err = left.children.of()
		}
		return kept, err
	case <-ctx.Done():
		endGroup(cmd.Process.Pid, cli.Or(e.grace, ExecGrace))
		<-done
		_ = left.asks.of(nil, e.Spend)
		return nil, context.Cause(ctx)
	}
}

// passedAlways are the variables of the worker's environment that every command gets, and all
// that begin with LC_. The rest may hold credentials, and jobs are others' code.
var passedAlways = []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"}

// Passed returns what a command gets of an environment.
func Passed(environ, names []string) (env []string) {
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if slices.Contains(passedAlways, name) || strings.HasPrefix(name, "LC_") || slices.Contains(names, name) {
			env = append(env, v)
		}
	}
	return env
}

// traceHeaders are a job's headers that its command gets as variables, as OpenTelemetry passes a
// trace on to a process: TRACEPARENT, TRACESTATE and BAGGAGE.
var traceHeaders = []string{"traceparent", "tracestate", "baggage"}

// environment returns the variables that tell the command of its job, and what
// removes the files that they name.
func (e *Execution) environment() (env []string, remove func(), err error) {
	env = []string{"ROTA_JOB_ID=" + string(e.Job), "ROTA_JOB_TYPE=" + string(e.Typ),
		fmt.Sprintf("ROTA_ATTEMPT=%d", e.Attempt), "ROTA_LEASE_TOKEN=" + e.Token.String()}
	for _, name := range traceHeaders {
		if value, has := e.headers[name]; has {
			env = append(env, strings.ToUpper(name)+"="+value)
		}
	}
	workflow, node, ok := rota.SplitNodeJobID(e.Job)
	if !ok {
		return env, func() {}, nil
	}
	env = append(env, "ROTA_WORKFLOW_ID="+string(workflow), "ROTA_NODE_ID="+node)
	if len(e.Parents) == 0 {
		return env, func() {}, nil
	}
	dir, err := newParentsDir(e.Parents)
	if err != nil {
		return nil, nil, err
	}
	return append(env, "ROTA_PARENTS="+dir.outputs, "ROTA_PARENTS_INDEX="+dir.index), dir.remove, nil
}

// left are the files that a command may leave something in: children is nil where its job is
// no node of a workflow.
type left struct {
	asks     askFile
	children *childrenFile
}

func (e *Execution) newLeft() (l left, err error) {
	if l.asks.leftFile, err = newLeftFile("ROTA_OUTCOME"); err != nil {
		return l, err
	}
	if _, node, ok := rota.SplitNodeJobID(e.Job); ok {
		if l.children, err = newChildrenFile(node); err != nil {
			l.asks.remove()
		}
	}
	return l, err
}

// environment returns the variables that name the files.
func (l left) environment() []string {
	env := []string{"ROTA_OUTCOME=" + l.asks.path}
	if l.children != nil {
		env = append(env, "ROTA_CHILDREN="+l.children.path)
	}
	return env
}

func (l left) remove() {
	l.asks.remove()
	if l.children != nil {
		l.children.remove()
	}
}

// endGroup ends every process of a group: SIGTERM, then SIGKILL after a grace.
// It returns when none is left.
func endGroup(group int, most time.Duration) {
	if syscall.Kill(-group, syscall.SIGTERM) != nil {
		return // nobody is left
	}
	grace := time.NewTimer(most)
	defer grace.Stop()
	poll := time.NewTicker(execPoll)
	defer poll.Stop()
	for {
		select {
		case <-grace.C:
			_ = syscall.Kill(-group, syscall.SIGKILL)
			return
		case <-poll.C:
			if syscall.Kill(-group, 0) != nil {
				return
			}
		}
	}
}

func (e *Execution) result(err error, output *boundedBuffer, tail *tailBuffer) ([]byte, error) {
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it exited with 0 and left something in the background
	}
	said := strings.TrimSpace(tail.String())
	var exit *exec.ExitError
	switch {
	case err == nil && output.over:
		return nil, fmt.Errorf("output is longer than %d bytes", rota.MaxPayloadBytes)
	case err == nil:
		return output.kept, nil
	case errors.As(err, &exit) && exit.ExitCode() == exitDeclines:
		return nil, errors.Join(ErrDeclined, textError(said))
	case errors.As(err, &exit):
		return nil, errors.New(exit.String() + cli.Prefixed(": ", said))
	default:
		return nil, err
	}
}

// textError makes an error of a text, nil of none.
func textError(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// boundedBuffer keeps what is written to it up to a bound, and notes more. It
// is no bytes.Buffer: that one's ReadFrom would know no bound.
type boundedBuffer struct {
	kept []byte
	most int
	over bool
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	keep := min(len(p), b.most-len(b.kept))
	if keep < len(p) {
		b.over = true
	}
	b.kept = append(b.kept, p[:keep]...)
	return len(p), nil
}

// tailBuffer keeps the last of what is written to it.
type tailBuffer struct {
	kept []byte
	most int
}

func (b *tailBuffer) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p...)
	if extra := len(b.kept) - b.most; extra > 0 {
		b.kept = append(b.kept[:0], b.kept[extra:]...)
	}
	return len(p), nil
}

// String returns the tail, cut to whole characters.
func (b *tailBuffer) String() string { return strings.ToValidUTF8(string(b.kept), "") }
