package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The metrics that are read from servers.
const (
	metricCPU = "process_cpu_seconds_total"
	metricRSS = "process_resident_memory_bytes"
	// metricSys less metricReleased is the memory that the runtime holds of the system.
	metricSys        = "go_memstats_sys_bytes"
	metricReleased   = "go_memstats_heap_released_bytes"
	metricFDs        = "process_open_fds"
	metricGoroutines = "go_goroutines"
	metricApplied    = "rota_applied_index"
	metricApply      = "rota_apply_seconds"
	metricHold       = "rota_snapshot_hold_seconds"
	metricWrite      = "rota_snapshot_write_seconds"
)

// sample holds a server's own metrics: by name, series of a name summed. Buckets of histograms are by name{le}, as the
// server wrote it.
type sample map[string]float64

// ownMemory returns the memory that the runtime holds of the system, in bytes: without the pages of mapped files, which
// the kernel may reclaim at any time.
func ownMemory(s sample) float64 { return s[metricSys] - s[metricReleased] }

const maxScrape = 10 * time.Second

// scrape reads one server's metrics.
func scrape(ctx context.Context, admin string) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, maxScrape)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("metrics of a server: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New("metrics of a server: " + answer.Status)
	}
	return readSample(answer.Body)
}

func readSample(from io.Reader) (sample, error) {
	s := sample{}
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		name, value, ok := cutLast(lines.Text(), " ")
		if !ok || strings.HasPrefix(name, "#") {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue // a series with a time behind it: rota has none
		}
		if !strings.Contains(name, "_bucket{") {
			name, _, _ = strings.Cut(name, "{")
		}
		s[name] += v
	}
	return s, lines.Err()
}

func cutLast(text, sep string) (before, after string, found bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(sep):], true
}

// largestBucket returns the upper bound of the highest used bucket of a histogram between two samples: no observation
// in between exceeds it. 0 if there was none.
func largestBucket(before, after sample, name string) float64 {
	least, total := -1.0, after[name+"_count"]-before[name+"_count"]
	if total <= 0 {
		return 0
	}
	for key, n := range after {
		text, ok := strings.CutPrefix(key, name+`_bucket{le="`)
		if !ok {
			continue
		}
		le, err := strconv.ParseFloat(strings.TrimSuffix(text, `"}`), 64)
		if err == nil && n-before[key] >= total && (least < 0 || le < least) {
			least = le
		}
	}
	return least
}

// all reads every server.
func (s *servers) all(ctx context.Context) ([]sample, error) {
	samples := make([]sample, len(s.Nodes))
	for i, n := range s.Nodes {
		var err error
		if samples[i], err = scrape(ctx, n.Admin); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

// sum returns a metric summed over all servers, most the greatest of any.
func (s *servers) sum(ctx context.Context, name string) (sum float64, err error) {
	samples, err := s.all(ctx)
	for _, one := range samples {
		if _, ok := one[name]; !ok {
			return 0, fmt.Errorf("a server does not tell its %s", name)
		}
		sum += one[name]
	}
	return sum, err
}

func (s *servers) most(ctx context.Context, name string) (most float64, err error) {
	samples, err := s.all(ctx)
	for _, one := range samples {
		most = max(most, one[name])
	}
	return most, err
}
