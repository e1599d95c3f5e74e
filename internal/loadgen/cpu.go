package loadgen

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpuMeter reads how much CPU time the servers and this process have used, as the
// operating system counts it.
type cpuMeter struct {
	// admins are the servers' admin ports; without any only this process is counted.
	admins []string
	// tls returns the settings for an admin port, nil for plain HTTP.
	tls func(addr string) (*tls.Config, error)
}

// cpuReading is CPU time of this process and of all servers together.
type cpuReading struct{ here, servers time.Duration }

func (m *cpuMeter) read(ctx context.Context) (r cpuReading, err error) {
	r.here = processCPU()
	for _, addr := range m.admins {
		used, err := m.server(ctx, addr)
		if err != nil {
			return r, fmt.Errorf("CPU time of the server whose admin port is %s: %w", addr, err)
		}
		r.servers += used
	}
	return r, nil
}

// server asks one server for its process_cpu_seconds_total.
func (m *cpuMeter) server(ctx context.Context, addr string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callMost)
	defer cancel()
	url, transport := "http://"+addr+"/metrics", &http.Transport{DisableKeepAlives: true}
	if config, err := m.tls(addr); err != nil {
		return 0, err
	} else if config != nil {
		url, transport.TLSClientConfig = "https://"+addr+"/metrics", config
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return 0, errors.New(answer.Status)
	}
	return cpuOf(answer.Body)
}

// cpuOf finds the CPU time in a server's metrics.
func cpuOf(metrics io.Reader) (time.Duration, error) {
	lines := bufio.NewScanner(metrics)
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), "process_cpu_seconds_total ")
		if !ok {
			continue
		}
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, err
		}
		return time.Duration(seconds * float64(time.Second)), nil
	}
	return 0, errors.Join(errors.New("it does not tell its process_cpu_seconds_total"), lines.Err())
}

// processCPU is the CPU time, user and system, of this process so far.
func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// profileCPU writes a profile of this process to a file until stop is called; no
// name, no profile.
func profileCPU(name string) (stop func() error, err error) {
	if name == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
