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

// cpuMeter reads how much CPU time the servers and this process have used, as the operating system counts it.
type cpuMeter struct {
	// admins are the servers' admin ports; if empty, only this process is counted.
	admins []string
	// tls returns the settings for an admin port, nil for plain HTTP.
	tls func(addr string) (*tls.Config, error)
}

// cpuReading is CPU time of this process, and of each server.
type cpuReading struct {
	here    time.Duration
	servers []serverCPU
}

// serverCPU is the CPU time of a server's process, and the start time that the process reports.
type serverCPU struct {
	used  time.Duration
	began string
}

// cpuSpent is CPU time between two readings: of this process, and of all servers together.
type cpuSpent struct {
	here, servers time.Duration
	// unknown is why the servers' time is unknown, "" if it is known.
	unknown string
}

func (m *cpuMeter) read(ctx context.Context) (r cpuReading, err error) {
	r.here = processCPU()
	for _, addr := range m.admins {
		s, err := m.server(ctx, addr)
		if err != nil {
			return r, fmt.Errorf("CPU time of the server whose admin port is %s: %w", addr, err)
		}
		r.servers = append(r.servers, s)
	}
	return r, nil
}

// since returns the time used since a reading. The earlier use of a process that was restarted meanwhile is unknown.
func (m *cpuMeter) since(ctx context.Context, before cpuReading) cpuSpent {
	after, err := m.read(ctx)
	spent := cpuSpent{here: after.here - before.here}
	if err != nil {
		spent.unknown = err.Error()
		return spent
	}
	for i, s := range after.servers {
		was := before.servers[i]
		if s.began != was.began || s.used < was.used {
			return cpuSpent{here: spent.here, unknown: "a server restarted, the one whose admin port is " + m.admins[i]}
		}
		spent.servers += s.used - was.used
	}
	return spent
}

// server reads the metrics of one server.
func (m *cpuMeter) server(ctx context.Context, addr string) (s serverCPU, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxCall)
	defer cancel()
	url, transport := "http://"+addr+"/metrics", &http.Transport{DisableKeepAlives: true}
	if config, err := m.tls(addr); err != nil {
		return s, err
	} else if config != nil {
		url, transport.TLSClientConfig = "https://"+addr+"/metrics", config
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return s, err
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return s, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return s, errors.New(answer.Status)
	}
	return cpuOf(answer.Body)
}

// cpuOf finds the CPU time in a server's metrics, and when its process began, if given.
func cpuOf(metrics io.Reader) (s serverCPU, err error) {
	found := false
	lines := bufio.NewScanner(metrics)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		switch name {
		case "process_start_time_seconds":
			s.began = value
		case "process_cpu_seconds_total":
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return s, err
			}
			s.used, found = time.Duration(seconds*float64(time.Second)), true
		}
	}
	if err := lines.Err(); err != nil || !found {
		return s, errors.Join(errors.New("it does not tell its process_cpu_seconds_total"), err)
	}
	return s, nil
}

// processCPU returns the CPU time, user and system, of this process so far.
func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// profileCPU writes a profile of this process to a file until stop is called; without a name it does nothing.
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
