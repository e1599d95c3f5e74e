package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/rotasched/rota/test/rig"
)

const (
	// answered bounds how long a driver takes for one request, ends for its end.
	answered = 2 * time.Minute
	ends     = 20 * time.Second
	// lastLines is how many lines of a driver's output an error includes.
	lastLines = 30
)

// answer is a message of a driver: an answer or a report.
type answer struct {
	N     int             `json:"n"`
	OK    json.RawMessage `json:"ok"`
	Error string          `json:"error"`
	On    string          `json:"on"`
	// Worker, Job and Token identify the subject of a report.
	Worker string `json:"worker"`
	Job    string `json:"job"`
	Token  string `json:"token"`
}

// driver is a driver's process.
type driver struct {
	process *rig.Process
	stdin   io.WriteCloser

	mu      sync.Mutex
	asked   int
	waiting map[int]chan answer
	reports []answer
	// news is closed and replaced with each report; ended is closed once the process has ended.
	news  chan struct{}
	ended chan struct{}
	fault error
}

// startDriver starts a driver by its command line, in a directory.
func startDriver(dir string, line []string) (*driver, error) {
	d := &driver{waiting: map[int]chan answer{}, news: make(chan struct{}), ended: make(chan struct{})}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir, cmd.Env = dir, rig.Inherited()
	var err error
	if d.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, in := io.Pipe()
	cmd.Stdout = in
	if d.process, err = rig.Start("the driver", cmd, ""); err != nil {
		return nil, err
	}
	go func() {
		<-d.process.Ended()
		_ = in.Close()
	}()
	go d.listen(out)
	return d, nil
}

// listen reads the driver's messages until its output ends.
func (d *driver) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var a answer
		err := json.Unmarshal(lines.Bytes(), &a)
		d.mu.Lock()
		switch {
		case err != nil:
			d.fault = fmt.Errorf("the driver wrote %.200q: %w", lines.Bytes(), err)
		case a.On != "":
			d.reports = append(d.reports, a)
			close(d.news)
			d.news = make(chan struct{})
		case d.waiting[a.N] != nil:
			d.waiting[a.N] <- a
			delete(d.waiting, a.N)
		default:
			d.fault = fmt.Errorf("the driver answered request %d, which is not waiting for an answer", a.N)
		}
		d.mu.Unlock()
	}
	if err := lines.Err(); err != nil {
		d.mu.Lock()
		d.fault = fmt.Errorf("the driver's output: %w", err)
		d.mu.Unlock()
	}
	close(d.ended)
}

// ask sends a request and decodes its answer into result, nil for none. The kind is that of the client's error, "" if
// there was none.
func (d *driver) ask(do string, args map[string]any, result any) (kind string, err error) {
	d.mu.Lock()
	d.asked++
	n, reply := d.asked, make(chan answer, 1)
	d.waiting[n] = reply
	request := map[string]any{"n": n, "do": do}
	for k, v := range args {
		request[k] = v
	}
	line, err := json.Marshal(request)
	if err == nil {
		_, err = d.stdin.Write(append(line, '\n'))
	}
	d.mu.Unlock()
	if err != nil {
		return "", fmt.Errorf("%s: %w", do, err)
	}
	select {
	case a := <-reply:
		if a.Error != "" || result == nil {
			return a.Error, nil
		}
		if err := json.Unmarshal(a.OK, result); err != nil {
			return "", fmt.Errorf("%s was answered %.200q: %w", do, a.OK, err)
		}
		return "", nil
	case <-d.ended:
		return "", fmt.Errorf("%s: the driver ended; its output:\n%s", do, d.process.LastWords(lastLines))
	case <-time.After(answered):
		return "", fmt.Errorf("%s: no answer in %v; the driver's output:\n%s", do, answered, d.process.LastWords(lastLines))
	}
}

// await waits for times reports of a kind about a job.
func (d *driver) await(ctx context.Context, on, job string, times int) error {
	for {
		d.mu.Lock()
		news, seen := d.news, 0
		for _, r := range d.reports {
			if r.On == on && r.Job == job {
				seen++
			}
		}
		d.mu.Unlock()
		if seen >= times {
			return nil
		}
		select {
		case <-news:
		case <-d.ended:
			return fmt.Errorf("the driver ended before it reported %s of %s; its output:\n%s", on, job,
				d.process.LastWords(lastLines))
		case <-ctx.Done():
			return fmt.Errorf("got %d reports of %s of %s, want %d: %w", seen, on, job, times, ctx.Err())
		}
	}
}

// kill ends the process at once.
func (d *driver) kill() {
	d.process.Kill()
	<-d.ended
}

// close ends the driver by closing its input, and returns its errors.
func (d *driver) close() error {
	_ = d.stdin.Close()
	if !d.process.Wait(ends) {
		d.kill()
		return fmt.Errorf("the driver did not end with its input; its output:\n%s", d.process.LastWords(lastLines))
	}
	<-d.ended
	if code := d.process.ExitCode(); code != 0 {
		return fmt.Errorf("the driver ended with %d; its output:\n%s", code, d.process.LastWords(lastLines))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fault
}
