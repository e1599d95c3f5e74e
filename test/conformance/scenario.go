package conformance

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"gopkg.in/yaml.v3"
)

//go:embed scenarios/*.yaml
var files embed.FS

// scenario is one file of scenarios/.
type scenario struct {
	// Name is the file's, About describes what it promises.
	Name  string `yaml:"-"`
	About string `yaml:"about"`
	Steps []step `yaml:"steps"`
}

// step has one field set.
type step struct {
	// Queue sets keys of the queue that all jobs of the scenario are in.
	Queue map[string]string `yaml:"queue"`
	// Rule sets a rule for a key.
	Rule   *keyRule `yaml:"rule"`
	Worker *worker  `yaml:"worker"`
	Submit *submit  `yaml:"submit"`
	// Workflow submits a workflow, without the driver.
	Workflow *workflow `yaml:"workflow"`
	// Wait is the driver's own wait for a job.
	Wait *wait `yaml:"wait"`
	// Ask makes the driver send a request about a job.
	Ask *ask `yaml:"ask"`
	// Retire makes an operator retire a worker.
	Retire string `yaml:"retire"`
	// Drain makes the driver end a worker, and waits until the cluster no longer gives it jobs.
	Drain string `yaml:"drain"`
	// Release ends the sleep of a job's handlers.
	Release string `yaml:"release"`
	// Started and Lost wait until a handler reported so.
	Started *report `yaml:"started"`
	Lost    *report `yaml:"lost"`
	// Leader is "dies": the leader is killed here in the second life of the scenario.
	Leader string `yaml:"leader"`
	// Nodes is "roll": each node is stopped and started again, one after another.
	Nodes string `yaml:"nodes"`
	// Driver is "dies" or "starts".
	Driver string  `yaml:"driver"`
	Expect *expect `yaml:"expect"`
}

type keyRule struct {
	Name        string `yaml:"name"`
	Concurrency int64  `yaml:"concurrency"`
}

type worker struct {
	Name  string `yaml:"name"`
	Slots int    `yaml:"slots"`
}

type submit struct {
	Jobs []job `yaml:"jobs"`
	// Times submits the one job this many times, under ids that end with a number.
	Times int `yaml:"times"`
	// Refused has the kinds of those that must be refused; Existed lists those that must be known already, Merged the
	// holder of each that must be merged into it.
	Refused map[string]string `yaml:"refused"`
	Existed []string          `yaml:"existed"`
	Merged  map[string]string `yaml:"merged"`
}

// job is a job as drivers accept it.
type job struct {
	ID           string            `yaml:"id" json:"id"`
	Queue        string            `yaml:"queue" json:"queue"`
	Type         string            `yaml:"type" json:"type"`
	Payload      any               `yaml:"payload" json:"payload,omitempty"`
	Bytes        string            `yaml:"bytes" json:"bytes,omitempty"`
	DelayMs      int64             `yaml:"delay_ms" json:"delay_ms,omitempty"`
	MaxRuntimeMs int64             `yaml:"max_runtime_ms" json:"max_runtime_ms,omitempty"`
	Attempts     int64             `yaml:"attempts" json:"attempts,omitempty"`
	Keys         map[string]string `yaml:"keys" json:"keys,omitempty"`
	Unique       map[string]string `yaml:"unique" json:"unique,omitempty"`
	Headers      map[string]string `yaml:"headers" json:"headers,omitempty"`
}

type workflow struct {
	ID    string `yaml:"id"`
	Nodes []node `yaml:"nodes"`
}

type node struct {
	ID      string   `yaml:"id"`
	Type    string   `yaml:"type"`
	Payload any      `yaml:"payload"`
	Parents []string `yaml:"parents"`
}

type wait struct {
	Job    string `yaml:"job"`
	Type   string `yaml:"type"`
	State  string `yaml:"state"`
	Output any    `yaml:"output"`
	Error  string `yaml:"error"`
}

type ask struct {
	Do       string `yaml:"do"`
	Job      string `yaml:"job"`
	Counted  bool   `yaml:"counted"`
	Priority int32  `yaml:"priority"`
	// Refused is the kind of the expected refusal, "" for success.
	Refused string `yaml:"refused"`
}

type report struct {
	Job string `yaml:"job"`
	// Times is how many reports are awaited; 0 means 1.
	Times int `yaml:"times"`
}

// expect is the expected record of a job, as soon as it has ended unless State is not terminal.
type expect struct {
	Job   string `yaml:"job"`
	State string `yaml:"state"`
	// Jobs, if not 0, is how many of the jobs that Times made are checked; all of them must fit.
	Jobs int `yaml:"jobs"`
	// Attempts counts them all, Ends are their reasons. 0 means any number.
	Attempts int      `yaml:"attempts"`
	Ends     []string `yaml:"ends"`
	Output   any      `yaml:"output"`
	Bytes    string   `yaml:"bytes"`
	Error    string   `yaml:"error"`
	Progress string   `yaml:"progress"`
	Log      string   `yaml:"log"`
	// Worker is the last attempt's worker.
	Worker string `yaml:"worker"`
}

// scenarios returns all of them, sorted by name.
func scenarios() ([]scenario, error) {
	names, err := fs.Glob(files, "scenarios/*.yaml")
	if err != nil {
		return nil, err
	}
	var all []scenario
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s := scenario{Name: strings.TrimSuffix(strings.TrimPrefix(name, "scenarios/"), ".yaml")}
		d := yaml.NewDecoder(bytes.NewReader(text))
		d.KnownFields(true)
		if err := d.Decode(&s); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, s)
	}
	return all, nil
}
