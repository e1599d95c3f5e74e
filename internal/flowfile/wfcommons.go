package flowfile

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/jsonparts"
	"github.com/rotasched/rota/internal/millis"
)

// Options say how a WfCommons instance becomes a workflow.
type Options struct {
	// Scale is what recorded runtimes are multiplied by.
	Scale float64
	// Resources takes recorded cores and memory over: off unless asked for, as workers
	// that declare neither could then run nothing.
	Resources bool
}

// wfInstance holds the fields read of an instance in WfFormat 1.5.
type wfInstance struct {
	Name          string `json:"name"`
	SchemaVersion any    `json:"schemaVersion"`
	Workflow      *struct {
		Specification *struct {
			Tasks []wfTask `json:"tasks"`
			Files []wfFile `json:"files"`
		} `json:"specification"`
		Execution *struct {
			Tasks []wfRun `json:"tasks"`
		} `json:"execution"`
	} `json:"workflow"`
}

// wfTask is a task as it was planned.
type wfTask struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Parents     []string `json:"parents"`
	Children    []string `json:"children"`
	InputFiles  []string `json:"inputFiles"`
	OutputFiles []string `json:"outputFiles"`
}

type wfFile struct {
	ID          string  `json:"id"`
	SizeInBytes float64 `json:"sizeInBytes"`
}

// wfRun is a task as it was run; nil and 0 where nothing was recorded.
type wfRun struct {
	ID               string   `json:"id"`
	RuntimeInSeconds *float64 `json:"runtimeInSeconds"`
	Command          struct {
		Program string `json:"program"`
	} `json:"command"`
	CoreCount     float64 `json:"coreCount"`
	MemoryInBytes float64 `json:"memoryInBytes"`
}

// isWfCommons reports whether a file is an instance and not in our own format.
func isWfCommons(text []byte) bool {
	if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != '{' {
		return false
	}
	var probe struct {
		Workflow json.RawMessage `json:"workflow"`
		Nodes    json.RawMessage `json:"nodes"`
	}
	return json.Unmarshal(text, &probe) == nil && probe.Nodes == nil && bytes.HasPrefix(probe.Workflow, []byte("{"))
}

// parseWfCommons makes a workflow of an instance: each task a node, in the file's
// order, with its recorded runtime as simulate_ms.
func parseWfCommons(text []byte, o Options) (rota.WorkflowSpec, error) {
	w, err := readInstance(text)
	if err != nil {
		return rota.WorkflowSpec{}, err
	}
	m := &wfMaker{options: o, runs: map[string]*wfRun{}, sizes: map[string]float64{}, produced: map[string]bool{},
		places: make(map[string]int, len(w.Workflow.Specification.Tasks))}
	if err := m.index(w); err != nil {
		return rota.WorkflowSpec{}, err
	}
	var spec rota.WorkflowSpec
	if name := labelValue(w.Name); name != "" {
		spec.Labels = map[string]string{"name": name}
	}
	for i := range w.Workflow.Specification.Tasks {
		n, err := m.node(&w.Workflow.Specification.Tasks[i])
		if err != nil {
			return spec, err
		}
		spec.Nodes = append(spec.Nodes, n)
	}
	err = m.join(&spec, w.Workflow.Specification.Tasks)
	return spec, err
}

// readInstance decodes an instance and refuses anything else.
func readInstance(text []byte) (*wfInstance, error) {
	if err := checkJSON(text); err != nil {
		return nil, err
	}
	w := &wfInstance{}
	if err := jsonparts.Read(text, w, false); err != nil {
		line := 1
		if fault, found := errors.AsType[*jsonparts.Fault](err); found {
			line = lineAt(text, int64(fault.Offset))
		}
		return nil, Faults{fmt.Sprintf("line %d: %v", line, readable(err))}
	}
	switch {
	case w.Workflow == nil:
		return nil, Faults{"workflow is missing: use a WfCommons instance"}
	case w.Workflow.Specification == nil:
		version := ""
		if w.SchemaVersion != nil {
			version = fmt.Sprintf("; this file has schemaVersion %v", w.SchemaVersion)
		}
		return nil, Faults{"workflow.specification is missing: use an instance in WfFormat 1.5" + version}
	case len(w.Workflow.Specification.Tasks) == 0:
		return nil, Faults{"workflow.specification.tasks is empty: a workflow has one task at least"}
	}
	return w, nil
}

// wfMaker makes nodes of tasks.
type wfMaker struct {
	options Options
	runs    map[string]*wfRun
	sizes   map[string]float64
	// produced are the files that some task puts out.
	produced map[string]bool
	// places of the tasks by id.
	places map[string]int
}

// index joins the two lists of tasks by id. An instance without execution is one
// that was never run: its tasks take no time.
func (m *wfMaker) index(w *wfInstance) error {
	tasks := w.Workflow.Specification.Tasks
	for i := range tasks {
		if first, twice := m.places[tasks[i].ID]; twice {
			return Faults{fmt.Sprintf("duplicate task %q: tasks %d and %d of workflow.specification",
				head(tasks[i].ID), first+1, i+1)}
		}
		m.places[tasks[i].ID] = i
		for _, f := range tasks[i].OutputFiles {
			m.produced[f] = true
		}
	}
	for _, f := range w.Workflow.Specification.Files {
		m.sizes[f.ID] = f.SizeInBytes
	}
	if w.Workflow.Execution == nil {
		return nil
	}
	for i := range w.Workflow.Execution.Tasks {
		run := &w.Workflow.Execution.Tasks[i]
		if _, known := m.places[run.ID]; !known {
			return Faults{fmt.Sprintf("workflow.execution has task %q, which workflow.specification does not have",
				head(run.ID))}
		}
		if m.runs[run.ID] != nil {
			return Faults{fmt.Sprintf("workflow.execution has task %q twice", head(run.ID))}
		}
		m.runs[run.ID] = run
	}
	for i := range tasks {
		if m.runs[tasks[i].ID] == nil {
			return Faults{fmt.Sprintf("workflow.execution does not have task %q", head(tasks[i].ID))}
		}
	}
	return nil
}

// node makes the node of a task, without its parents.
func (m *wfMaker) node(task *wfTask) (rota.NodeSpec, error) {
	n := rota.NewNodeSpec(task.ID, "", nil)
	refuse := func(format string, args ...any) (rota.NodeSpec, error) {
		return n, Faults{fmt.Sprintf("task %q: ", head(task.ID)) + fmt.Sprintf(format, args...)}
	}
	if err := rota.CheckNodeID("id", task.ID); err != nil {
		return refuse("%v", err)
	}
	run := m.runs[task.ID]
	if run == nil {
		run = &wfRun{RuntimeInSeconds: new(float64)}
	}
	if run.RuntimeInSeconds == nil {
		return refuse("runtimeInSeconds is missing")
	}
	ms := math.Round(*run.RuntimeInSeconds * m.options.Scale * 1000)
	if !(*run.RuntimeInSeconds >= 0 && ms >= 0 && ms <= float64(rota.MaxDuration.Milliseconds())) {
		return refuse("runtimeInSeconds must be between 0 and %d s, got %v × %v",
			int64(rota.MaxDuration.Seconds()), *run.RuntimeInSeconds, m.options.Scale)
	}
	n.Simulate = millis.Duration(int64(ms))
	n.Type = wfType(run.Command.Program, task)
	n.DataKeys = m.dataKeys(task)
	if m.options.Resources {
		cpu, memory := math.Ceil(run.CoreCount*1000), math.Ceil(run.MemoryInBytes)
		if !(cpu >= 0 && cpu <= rota.MaxCPUMilli) {
			return refuse("coreCount must be between 0 and %d, got %v", rota.MaxCPUMilli/1000, run.CoreCount)
		}
		if !(memory >= 0 && memory <= rota.MaxMemoryBytes) {
			return refuse("memoryInBytes must be between 0 and %d, got %v", int64(rota.MaxMemoryBytes),
				run.MemoryInBytes)
		}
		n.CPUMilli, n.MemoryBytes = int64(cpu), inSteps(int64(memory))
	}
	return n, nil
}

// inSteps rounds a recorded size up to one of eight steps an octave. Each amount of
// memory asked for is a class of requirements of its own (SPEC §1), and recorded ones
// differ from task to task by bytes that mean nothing.
func inSteps(n int64) int64 {
	step := int64(1)
	for n/step >= 16 {
		step *= 2
	}
	return (n + step - 1) / step * step
}

// join gives every node its parents: those of its own edges, and those that other tasks list as their children.
func (m *wfMaker) join(spec *rota.WorkflowSpec, tasks []wfTask) error {
	type ends struct{ from, to int }
	told := make(map[ends]bool)
	edge := func(teller *wfTask, role, other string, from, to func(here, there int) int) error {
		here := m.places[teller.ID]
		there, known := m.places[other]
		if !known {
			return Faults{fmt.Sprintf("task %q: its %s %q is not a task of this instance", head(teller.ID), role,
				head(other))}
		}
		e := ends{from(here, there), to(here, there)}
		if !told[e] {
			told[e] = true
			n := &spec.Nodes[e.to]
			n.Parents = append(n.Parents, tasks[e.from].ID)
		}
		return nil
	}
	first := func(here, _ int) int { return here }
	second := func(_, there int) int { return there }
	for i := range tasks {
		for _, p := range tasks[i].Parents {
			if err := edge(&tasks[i], "parent", p, second, first); err != nil {
				return err
			}
		}
	}
	for i := range tasks {
		for _, c := range tasks[i].Children {
			if err := edge(&tasks[i], "child", c, first, second); err != nil {
				return err
			}
		}
	}
	return nil
}

// wfType names the handler: the program, or the first command of a program that is
// a whole script; the task's name where that is none, such as "[" or "i=0".
func wfType(program string, task *wfTask) rota.JobType {
	for _, line := range strings.Split(program, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if base := path.Base(words[0]); strings.ContainsFunc(base, unicode.IsLetter) && !strings.Contains(base, "=") {
			return idOf(base)
		}
		break
	}
	return idOf(cmp.Or(task.Name, task.ID, "task"))
}

// idOf makes an id of a text: other characters become _, and of a long one the end
// counts, where names of tasks differ.
func idOf(text string) rota.JobType {
	id := []byte(text)
	for i, c := range id {
		if !rota.ValidID(string(c)) {
			id[i] = '_'
		}
	}
	return rota.JobType(id[max(0, len(id)-rota.MaxIDBytes):])
}

// dataKeys are the files that a task reads and that no task makes: the affinity
// strategy brings it to a worker that has them. Of too many the largest count.
func (m *wfMaker) dataKeys(task *wfTask) []string {
	var files []string
	for _, f := range task.InputFiles {
		if f != "" && !m.produced[f] && !slices.Contains(files, f) {
			files = append(files, f)
		}
		if len(files) > 100*rota.MaxDataKeys {
			break // Contains above is quadratic
		}
	}
	if len(files) > rota.MaxDataKeys {
		slices.SortStableFunc(files, func(a, b string) int {
			switch sa, sb := m.sizes[a], m.sizes[b]; {
			case sa > sb:
				return -1
			case sa < sb:
				return 1
			}
			return 0
		})
		files = files[:rota.MaxDataKeys]
	}
	for i, f := range files {
		files[i] = dataKey(f)
	}
	return files
}

// dataKey is a file's id as a data key: as it is where that is one, else its
// beginning and a hash of the whole.
func dataKey(file string) string {
	key := []byte(file)
	sound := len(key) <= rota.MaxLabelBytes
	for i, c := range key {
		if c <= ' ' || c > '~' {
			key[i], sound = '_', false
		}
	}
	if sound {
		return file
	}
	sum := fmt.Sprintf("~%x", sha256.Sum256([]byte(file)))[:17]
	return string(key[:min(len(key), rota.MaxLabelBytes-len(sum))]) + sum
}

// labelValue cuts a text to what a label may hold.
func labelValue(text string) string {
	text = strings.ToValidUTF8(text, "")
	for len(text) > rota.MaxLabelBytes {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}
