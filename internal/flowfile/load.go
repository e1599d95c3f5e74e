package flowfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/rotasched/rota"
)

// Load is a load that is drawn from distributions.
type Load struct {
	Seed       uint64   `yaml:"seed"`
	For        string   `yaml:"for"`
	Processors int64    `yaml:"processors"`
	Streams    []Stream `yaml:"streams"`
}

// Stream is the jobs of one kind in a load.
type Stream struct {
	Tenant   string  `yaml:"tenant"`
	Type     string  `yaml:"type"`
	Priority *int32  `yaml:"priority"`
	PerHour  float64 `yaml:"per_hour"`
	// Pattern is poisson, bursty or diurnal; Burst is how many jobs a burst has on average.
	Pattern string  `yaml:"pattern"`
	Burst   float64 `yaml:"burst"`
	// Run is the median run time of a lognormal distribution whose logarithm deviates by Spread, or the least of a
	// Pareto distribution of the exponent Tail.
	Run    string  `yaml:"run"`
	Spread float64 `yaml:"spread"`
	Tail   float64 `yaml:"tail"`
	// Estimate is the largest factor by which estimates exceed run times.
	Estimate float64 `yaml:"estimate"`
	// Processors weighs how many processors jobs need.
	Processors map[int64]float64 `yaml:"processors"`
}

// ParseLoad reads a load, in YAML or JSON.
func ParseLoad(text []byte) (*Load, error) {
	l := &Load{}
	if err := strictYAML(text, "a load", l); err != nil {
		return nil, err
	}
	if len(l.Streams) == 0 {
		return nil, errors.New("streams is missing: a load needs at least one")
	}
	return l, nil
}

// workersFile is a file of workers.
type workersFile struct {
	Workers []struct {
		ID           string           `yaml:"id"`
		Count        int              `yaml:"count"`
		Slots        int32            `yaml:"slots"`
		CPUMilli     int64            `yaml:"cpu_milli"`
		MemoryBytes  int64            `yaml:"memory_bytes"`
		IOBytesPerS  int64            `yaml:"io_bytes_per_s"`
		Region       string           `yaml:"region"`
		Zone         string           `yaml:"zone"`
		Capabilities []string         `yaml:"capabilities"`
		Limits       map[string]int64 `yaml:"limits"`
		Types        []rota.JobType   `yaml:"types"`
	} `yaml:"workers"`
}

// maxWorkers bounds the workers of a file.
const maxWorkers = 10_000

// ParseWorkers reads a file of workers, in YAML or JSON: {workers: [{id, count, slots, cpu_milli, …}]}. Of a count
// above 1 each gets its number at the end of its id. Slots are one for each processor where none are given.
func ParseWorkers(text []byte) (workers []rota.WorkerSpec, err error) {
	var file workersFile
	if err := strictYAML(text, "a workers file", &file); err != nil {
		return nil, err
	}
	seen := make(map[rota.WorkerID]bool)
	for i := range file.Workers {
		w := &file.Workers[i]
		if w.Count < 0 || len(workers)+max(w.Count, 1) > maxWorkers {
			return nil, fmt.Errorf("worker %q: count must be at least 1, got %d; maximum %d workers in all", w.ID,
				w.Count, maxWorkers)
		}
		if w.Slots == 0 {
			w.Slots = int32(min(max(w.CPUMilli/1000, 1), rota.MaxSlots))
		}
		for n := range max(w.Count, 1) {
			spec := rota.WorkerSpec{ID: rota.WorkerID(w.ID), Slots: w.Slots, CPUMilli: w.CPUMilli,
				MemoryBytes: w.MemoryBytes, IOBytesPerS: w.IOBytesPerS,
				Region: w.Region, Zone: w.Zone, Capabilities: w.Capabilities, Limits: w.Limits, Types: w.Types,
				Queues: []rota.QueueName{rota.DefaultQueue}}
			if w.Count > 1 {
				spec.ID = rota.WorkerID(fmt.Sprintf("%s-%d", w.ID, n+1))
			}
			if err := spec.CheckShape(); err != nil {
				return nil, fmt.Errorf("worker %q: %w", spec.ID, err)
			}
			if seen[spec.ID] {
				return nil, fmt.Errorf("worker %q is there twice: give each its own id, or one a count", spec.ID)
			}
			seen[spec.ID] = true
			workers = append(workers, spec)
		}
	}
	if len(workers) == 0 {
		return nil, errors.New("workers is missing: use {workers: [{id, slots, cpu_milli, …}]}")
	}
	return workers, nil
}

// strictYAML decodes a file that has one document and no fields but those that are known.
func strictYAML(text []byte, what string, into any) error {
	if len(text) > maxYAML {
		return fmt.Errorf("%s too long: maximum %d MiB, got %d", what, maxYAML>>20, len(text)>>20)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	err := d.Decode(into)
	var faults *yaml.TypeError
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s is empty", what)
	case errors.As(err, &faults):
		first, _, _ := strings.Cut(faults.Errors[0], " in type ")
		return fmt.Errorf("not %s: %s", what, strings.Replace(first, "field ", "unknown field ", 1))
	case err != nil:
		return fmt.Errorf("not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s is one document: this file continues after the first", what)
	}
	return nil
}
