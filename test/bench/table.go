package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// machine describes the machine and the software of the measurement.
type machine struct {
	processor, system, load, version string
	processors                       int
	fsync                            time.Duration
}

// look describes the machine before anything of this run loads it.
func (p *plan) look(ctx context.Context) (m machine, err error) {
	m = machine{processors: runtime.NumCPU(), processor: field("/proc/cpuinfo", "model name"), system: runtime.GOOS,
		load: strings.Join(strings.Fields(line("/proc/loadavg") + " ? ? ?")[:3], ", ")}
	if busy, err := strconv.ParseFloat(strings.Split(m.load, ",")[0], 64); err == nil &&
		busy > float64(m.processors)/2 {
		p.say("the machine has other work, a load of %s on %d processors: all figures will show it", m.load,
			m.processors)
	}
	if release := line("/proc/sys/kernel/osrelease"); release != "" {
		m.system += " " + release
	}
	out, err := exec.CommandContext(ctx, p.rota, "version").Output()
	if err != nil {
		return m, fmt.Errorf("%s version: %w", p.rota, err)
	}
	m.version = strings.Join(strings.Fields(string(out)), " ")
	m.fsync, err = fsyncTime(p.dir)
	return m, err
}

// line returns the first line of a file; empty if there is none.
func line(path string) string {
	b, _ := os.ReadFile(path)
	first, _, _ := strings.Cut(string(b), "\n")
	return first
}

// field returns the first value of a name in a file of "name : value".
func field(path, name string) string {
	b, _ := os.ReadFile(path)
	for l := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// fsyncTimes is the number of writes that are timed.
const fsyncTimes = 51

// fsyncTime returns the median time of writing 4 KiB that exist already and syncing them to disk: a job waits for some
// of these, whatever rota does.
func fsyncTime(dir string) (time.Duration, error) {
	f, err := os.CreateTemp(dir, "rota-fsync-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, 4096)
	var took []time.Duration
	for range fsyncTimes {
		begin := time.Now()
		if _, err := f.WriteAt(block, 0); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

func (m *machine) markdown() string {
	return fmt.Sprintf("%d × %s, %s; load average before %s; one fsync of 4 KiB %.1f ms (median of %d). %s.\n\n",
		m.processors, m.processor, m.system, m.load, float64(m.fsync.Microseconds())/1000, fsyncTimes, m.version)
}

// measureTable is `make bench`: the maximum throughput, and each rate, alternating.
func (p *plan) measureTable(ctx context.Context) error {
	m, err := p.look(ctx)
	if err != nil {
		return err
	}
	loads := p.loads()
	all := make([][]result, len(loads))
	err = p.cluster(ctx, p.rota, nil, func(s *servers) error {
		return p.repeated(func(turn int) error {
			for i, l := range loads {
				r, err := p.measure(ctx, p.rota, s, l.args)
				if err != nil {
					return err
				}
				p.say("%d of %d, %s: %.0f jobs/s, end to end p50 %.1f ms, p99 %.1f ms", turn, p.repeat, l.name,
					r.JobsPerS, r.E2EP50Ms, r.E2EP99Ms)
				if turn > 0 { // the first is for warming up
					all[i] = append(all[i], r)
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	return p.publish("bench", m.markdown()+table(loads, all))
}

// loadOf is one column of the table.
type loadOf struct {
	name string
	args []string
}

func (p *plan) loads() []loadOf {
	loads := []loadOf{{"as fast as it goes", p.closed()}}
	for _, rate := range p.rates {
		loads = append(loads, loadOf{fmt.Sprintf("%d jobs/s, open loop", rate), p.open(rate)})
	}
	return loads
}

// repeated calls do once to warm up, as turn 0, and then as often as configured and as time allows, at least once.
func (p *plan) repeated(do func(turn int) error) error {
	for turn := 0; turn <= p.repeat; turn++ {
		begin := time.Now()
		if err := do(turn); err != nil {
			return err
		}
		if left := p.most - time.Since(p.begin); turn > 0 && turn < p.repeat && left < time.Since(begin) {
			p.say("the time is over after %d of %d repetitions", turn, p.repeat)
			return nil
		}
	}
	return nil
}

// figure is a row: a name, the format of its values, and their source.
type figure struct {
	name, format string
	of           func(r *result) float64
}

var figures = []figure{
	{"jobs/s", "%.0f", func(r *result) float64 { return r.JobsPerS }},
	{"end to end, p50 ms", "%.1f", func(r *result) float64 { return r.E2EP50Ms }},
	{"end to end, p99 ms", "%.1f", func(r *result) float64 { return r.E2EP99Ms }},
	{"submission, p50 ms", "%.1f", func(r *result) float64 { return r.SubmitP50Ms }},
	{"submission, p99 ms", "%.1f", func(r *result) float64 { return r.SubmitP99Ms }},
	{"CPU of the servers, µs a job", "%.0f", func(r *result) float64 { return r.ServersCPUUs }},
	{"CPU of submitters and workers, µs a job", "%.0f", func(r *result) float64 { return r.ProcessCPUUs }},
	{"CPU of all, µs a job", "%.0f", func(r *result) float64 { return r.ServersCPUUs + r.ProcessCPUUs }},
}

// table returns a row for each figure: the median, and the range of all values.
func table(loads []loadOf, all [][]result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| median of %d (least to most) |", len(all[0]))
	for _, l := range loads {
		fmt.Fprintf(&b, " %s |", l.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(loads)) + "\n")
	for _, row := range figures {
		fmt.Fprintf(&b, "| %s |", row.name)
		for _, one := range all {
			fmt.Fprintf(&b, " %s |", spread(row.format, one, row.of))
		}
		b.WriteString("\n")
	}
	b.WriteString("\nThree `rota server` processes on loopback; in turns, after one round that does not count")
	for _, l := range loads {
		fmt.Fprintf(&b, "; `rota bench %s`", strings.Join(l.args, " "))
	}
	b.WriteString(". None lost, none done twice.\n")
	return b.String()
}

func spread(format string, all []result, of func(*result) float64) string {
	values := make([]float64, len(all))
	for i := range all {
		values[i] = of(&all[i])
	}
	slices.Sort(values)
	return fmt.Sprintf(format+" ("+format+" to "+format+")", median(values), values[0], values[len(values)-1])
}

// median returns the median of sorted values.
func median(sorted []float64) float64 {
	middle := sorted[len(sorted)/2]
	if len(sorted)%2 == 0 {
		middle = (middle + sorted[len(sorted)/2-1]) / 2
	}
	return middle
}

// marks returns the lines between which the part with that name lies.
func marks(part string) (begin, end string) {
	return "<!-- make " + part + ": begin -->\n", "<!-- make " + part + ": end -->\n"
}

// replaceBetween replaces the text between the two marks of a file.
func replaceBetween(path, part, text string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := marks(part)
	before, rest, begins := strings.Cut(string(b), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends || strings.Contains(after, begin) {
		return fmt.Errorf("%s has no place for the table: want one %q and then %q", path, begin, end)
	}
	return os.WriteFile(path, []byte(before+begin+text+end+after), 0o644)
}
