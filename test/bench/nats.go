package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/rotasched/rota/test/rig"
)

// measureNATS measures the same load on NATS JetStream and here, in turns: as many
// servers on the same disk, each job acknowledged after it was fsynced on a majority.
func (p *plan) measureNATS(ctx context.Context) error {
	m, err := p.look(ctx)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, p.nats, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s --version: %w", p.nats, err)
	}
	loads := p.loads()
	var there, here [][]result
	err = p.natsCluster(ctx, func(nats *natsServers) error {
		return p.cluster(ctx, p.rota, nil, func(s *servers) error {
			there, here, err = p.alternate(loads, func(args []string) (result, error) { return p.measureOnNATS(ctx, nats, args) },
				func(args []string) (result, error) { return p.measure(ctx, p.rota, s, args) })
			return err
		})
	})
	if err != nil {
		return err
	}
	text := m.markdown() + "Compared with: " + strings.TrimSpace(string(out)) + ", JetStream work queue of three replicas, `sync_interval: always`.\n\n"
	return p.publish("bench-nats", text+againstTable(loads, "NATS", "rota", there, here))
}

// measureOnNATS runs natsjobs once. CPU is what the system counts of the servers, as with
// rota's, which tell it themselves.
func (p *plan) measureOnNATS(ctx context.Context, s *natsServers, args []string) (r result, err error) {
	before, err := s.cpu()
	if err != nil {
		return r, err
	}
	line := []string{"--addr", strings.Join(s.apis, ",")}
	if err := run(ctx, measureMost, &r, p.natsLoad, append(line, args[1:]...)...); err != nil { // args[0] is rota's "jobs"
		return r, err
	}
	after, err := s.cpu()
	if err != nil {
		return r, err
	}
	r.ServersCPUUs = (after - before) * 1e6 / float64(max(r.Completed, 1))
	return r, nil
}

// ticksPerSecond is USER_HZ, which Linux has fixed at 100 on all that Go runs on.
const ticksPerSecond = 100

// natsServers are the NATS servers that are measured.
type natsServers struct {
	apis      []string
	processes []*rig.Process
}

// cpu is the CPU time, user and system, of all servers so far, in seconds.
func (s *natsServers) cpu() (sum float64, err error) {
	for _, p := range s.processes {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
		if err != nil {
			return 0, err
		}
		ticks, err := ticksOf(string(b))
		if err != nil {
			return 0, err
		}
		sum += ticks / ticksPerSecond
	}
	return sum, nil
}

func (s *natsServers) stop() (err error) {
	for _, p := range s.processes {
		_ = p.Signal(syscall.SIGTERM)
	}
	for _, p := range s.processes {
		err = errors.Join(err, p.Stop(stopMost))
	}
	return err
}

// ticksOf reads utime and stime, the 14th and 15th field of a process' stat; the second,
// its name, stands in parentheses and may hold anything.
func ticksOf(stat string) (float64, error) {
	_, rest, _ := strings.Cut(stat[max(0, strings.LastIndexByte(stat, ')')):], ")")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("a process' stat has too few fields: %q", stat)
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	system, bad := strconv.ParseFloat(fields[12], 64)
	return user + system, errors.Join(err, bad)
}

// natsConfig is that of one server: everything but the sync is as NATS has it by default.
const natsConfig = `server_name: %s
listen: %s
jetstream { store_dir: %q, sync_interval: always }
cluster { name: bench, listen: %s, routes: [%s] }
`

// natsCluster has three NATS servers for as long as do takes. That they have found a
// leader is seen by natsjobs, which tries to make its queue until then.
func (p *plan) natsCluster(ctx context.Context, do func(*natsServers) error) (err error) {
	dir, err := os.MkdirTemp(p.dir, "rota-bench-nats-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ports := make([]string, 2*together)
	for i := range ports {
		if ports[i], err = rig.FreeAddr(); err != nil {
			return err
		}
	}
	s := &natsServers{apis: ports[:together]}
	routes := "nats://" + strings.Join(ports[together:], ", nats://")
	defer func() { err = errors.Join(err, s.stop()) }()
	for i, api := range s.apis {
		id := fmt.Sprintf("n%d", i+1)
		config := filepath.Join(dir, id+".conf")
		text := fmt.Sprintf(natsConfig, id, api, filepath.Join(dir, id), ports[together+i], routes)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return err
		}
		one, err := rig.Start(id, exec.Command(p.nats, "--config", config), filepath.Join(dir, id+".log"))
		if err != nil {
			return err
		}
		s.processes = append(s.processes, one)
	}
	return do(s)
}
