package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// A peer is another queue that is measured. It acknowledges only data on the disk, as rota does: everything else has
// its makers' defaults.
type peer struct {
	name string
	// driver is the name by which peerjobs knows it, empty for its own.
	driver string
	// needs are the programs that it starts.
	needs []string
	// what is the description of the measured setup for the reader.
	what string
	// start starts its servers with their data in dir.
	start func(ctx context.Context, s *peerServers, dir string) error
}

var peers = []peer{
	{name: "nats", needs: []string{"nats-server"}, start: startNATS,
		what: "NATS JetStream: three servers, a work queue of three replicas, `sync_interval: always`"},
	{name: "river", needs: []string{"initdb", "postgres"}, start: startPostgres,
		what: "River: one PostgreSQL that syncs each commit, batches by `InsertManyFast`, `FetchCooldown: 2ms`"},
	{name: "river-majority", driver: "river", needs: []string{"initdb", "pg_basebackup", "postgres"},
		start: startPostgresMajority,
		what:  "River on a majority: the same with two standbys, `synchronous_standby_names = 'ANY 1 (s1, s2)'`: a commit is synced on two of three disks"},
	{name: "asynq", needs: []string{"redis-server"}, start: startRedis,
		what: "Asynq: one Redis, `appendfsync always`, `TaskCheckInterval: 2ms`; a job ends with its handler, since Asynq tells no later moment"},
	{name: "beanstalkd", needs: []string{"beanstalkd"}, start: startBeanstalkd,
		what: "beanstalkd: one server, `-f 0`, which syncs each write"},
}

// peerServers are the servers of a peer.
type peerServers struct {
	of        peer
	apis      []string
	processes []*rig.Process
}

// find returns the peers of a list of names.
func find(names string) (some []peer, err error) {
	for _, name := range strings.Split(names, ",") {
		i := slices.IndexFunc(peers, func(p peer) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no peer is called %q", name)
		}
		some = append(some, peers[i])
	}
	return some, nil
}

// measureNATS measures the same load on NATS JetStream and here, alternating, and reports ratios.
func (p *plan) measureNATS(ctx context.Context) error {
	m, err := p.look(ctx)
	if err != nil {
		return err
	}
	loads := p.loads()
	var there, here [][]result
	err = p.peerCluster(ctx, peers[0], func(nats *peerServers) error {
		return p.cluster(ctx, p.rota, nil, func(s *servers) error {
			there, here, err = p.alternate(loads, func(args []string) (result, error) {
				return p.measureThere(ctx, nats, args)
			},
				func(args []string) (result, error) { return p.measure(ctx, p.rota, s, args) })
			return err
		})
	})
	if err != nil {
		return err
	}
	text := m.markdown() + "Compared with " + peers[0].what + "; " + peers[0].version(ctx) + ".\n\n"
	return p.publish("bench-nats", text+againstTable(loads, "NATS", "rota", there, here))
}

// measurePeers measures the same load on each peer and here, alternating: on three servers, and on one for peers that
// keep one copy.
func (p *plan) measurePeers(ctx context.Context) error {
	m, err := p.look(ctx)
	if err != nil {
		return err
	}
	names := []string{"rota, three servers", "rota, one server"}
	var measures []func([]string) (result, error)
	text := m.markdown()
	open := func(then func() error) error {
		return p.cluster(ctx, p.rota, nil, func(three *servers) error {
			return p.clusterOf(ctx, 1, p.rota, nil, func(one *servers) error {
				for _, s := range []*servers{three, one} {
					measures = append(measures, func(args []string) (result, error) {
						return p.measure(ctx, p.rota, s, args)
					})
				}
				return then()
			})
		})
	}
	for _, one := range p.peers {
		within := open
		open = func(then func() error) error {
			return within(func() error {
				return p.peerCluster(ctx, one, func(s *peerServers) error {
					names = append(names, one.name)
					text += "- " + one.what + "; " + one.version(ctx) + ".\n"
					measures = append(measures, func(args []string) (result, error) {
						return p.measureThere(ctx, s, args)
					})
					return then()
				})
			})
		}
	}
	loads := p.loads()
	all := make([][][]result, len(loads))
	for i := range all {
		all[i] = make([][]result, 2+len(p.peers))
	}
	err = open(func() error {
		return p.repeated(func(turn int) error {
			for i, l := range loads {
				for k, measure := range measures {
					r, err := measure(l.args)
					if err != nil {
						return fmt.Errorf("%s: %w", names[k], err)
					}
					p.say("%d of %d, %s, %s: %.0f jobs/s, p50 %.1f ms, p99 %.1f ms", turn, p.repeat, names[k], l.name,
						r.JobsPerS, r.E2EP50Ms, r.E2EP99Ms)
					if turn > 0 {
						all[i][k] = append(all[i][k], r)
					}
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	return p.publish("bench-peers", text+"\n"+peersTable(loads, names, all))
}

// peersTable returns a part for each load, a row for each figure and a column for each queue.
func peersTable(loads []loadOf, names []string, all [][][]result) string {
	var b strings.Builder
	for i, l := range loads {
		fmt.Fprintf(&b, "| %s, median of %d (least to most) | %s |\n|---|%s\n", l.name, len(all[i][0]),
			strings.Join(names, " | "), strings.Repeat("---:|", len(names)))
		for _, row := range figures {
			fmt.Fprintf(&b, "| %s |", row.name)
			for _, one := range all[i] {
				fmt.Fprintf(&b, " %s |", spread(row.format, one, row.of))
			}
			b.WriteString("\n")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// measureThere runs peerjobs once. CPU is the system's count for the servers, as with rota's servers, which report it
// themselves.
func (p *plan) measureThere(ctx context.Context, s *peerServers, args []string) (r result, err error) {
	before, err := s.cpu()
	if err != nil {
		return r, err
	}
	line := []string{"--peer", cmp.Or(s.of.driver, s.of.name), "--addr", strings.Join(s.apis, ",")}
	if err := run(ctx, maxMeasure, &r, p.peerJobs, append(line,
		args[1:]...)...); err != nil { // args[0] is rota's "jobs"
		return r, err
	}
	after, err := s.cpu()
	if err != nil {
		return r, err
	}
	r.ServersCPUUs = (after - before) * 1e6 / float64(max(r.Completed, 1))
	return r, nil
}

// version returns the version that a peer's server reports.
func (p peer) version(ctx context.Context) string {
	flag := "--version"
	if p.name == "beanstalkd" {
		flag = "-v"
	}
	server := p.needs[len(p.needs)-1]
	out, err := exec.CommandContext(ctx, server, flag).Output()
	if err != nil {
		return server + " of unknown version"
	}
	return strings.TrimSpace(string(out))
}

// ticksPerSecond is USER_HZ, which Linux fixes at 100 on all platforms that Go supports.
const ticksPerSecond = 100

// cpu returns the CPU time in seconds, user and system, of all servers and of the processes that they started, so far.
func (s *peerServers) cpu() (sum float64, err error) {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, file := range all {
		b, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended: its parent counts it
		}
		if err != nil {
			return 0, err
		}
		t, err := timesOf(string(b))
		if err != nil {
			return 0, err
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if slices.ContainsFunc(s.processes, func(p *rig.Process) bool {
			return p.PID() == pid || p.PID() == t.parent
		}) {
			sum += t.ticks / ticksPerSecond
		}
	}
	return sum, nil
}

// times are the parent of a process and the CPU time of it and of its ended children, in ticks.
type times struct {
	parent int
	ticks  float64
}

// timesOf parses a process' stat: ppid is the 4th field, utime, stime, cutime and cstime are the 14th to 17th; the
// second, its name, is in parentheses and may hold anything.
func timesOf(stat string) (t times, err error) {
	_, rest, _ := strings.Cut(stat[max(0, strings.LastIndexByte(stat, ')')):], ")")
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return t, fmt.Errorf("a process' stat has too few fields: %q", stat)
	}
	t.parent, err = strconv.Atoi(fields[1])
	for _, f := range fields[11:15] {
		n, bad := strconv.ParseFloat(f, 64)
		t.ticks, err = t.ticks+n, errors.Join(err, bad)
	}
	return t, err
}

// peerCluster runs a peer's servers while do runs. Whether they answer is checked by peerjobs, which retries until
// then.
func (p *plan) peerCluster(ctx context.Context, of peer, do func(*peerServers) error) (err error) {
	for _, need := range of.needs {
		if _, err := exec.LookPath(need); err != nil {
			return fmt.Errorf("%s needs %s: %w (`make bench-nats` and `make bench-peers` see to it)", of.name, need,
				err)
		}
	}
	dir, err := os.MkdirTemp(p.dir, "rota-bench-"+of.name+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &peerServers{of: of}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := of.start(ctx, s, dir); err != nil {
		return err
	}
	return do(s)
}

func (s *peerServers) stop() (err error) {
	// PostgreSQL calls this signal fast: it does not wait for clients to leave.
	quick := syscall.SIGTERM
	if strings.HasPrefix(s.of.name, "river") {
		quick = syscall.SIGINT
	}
	for _, p := range s.processes {
		_ = p.Signal(quick)
	}
	for _, p := range s.processes {
		if !p.Wait(maxStop) {
			p.Kill()
			err = errors.Join(err, fmt.Errorf("a server of %s did not end", s.of.name))
		}
	}
	return err
}

// launch starts one server, with its output in a file next to its data.
func (s *peerServers) launch(name, dir string, cmd *exec.Cmd) error {
	one, err := rig.Start(name, cmd, filepath.Join(dir, name+".log"))
	if err == nil {
		s.processes = append(s.processes, one)
	}
	return err
}

// natsConfig is the configuration of one server: everything but the sync has NATS's defaults.
const natsConfig = `server_name: %s
listen: %s
jetstream { store_dir: %q, sync_interval: always }
cluster { name: bench, listen: %s, routes: [%s] }
`

func startNATS(_ context.Context, s *peerServers, dir string) (err error) {
	ports := make([]string, 2*together)
	for i := range ports {
		if ports[i], err = rig.FreeAddr(); err != nil {
			return err
		}
	}
	s.apis = ports[:together]
	routes := "nats://" + strings.Join(ports[together:], ", nats://")
	for i, api := range s.apis {
		id := fmt.Sprintf("n%d", i+1)
		config := filepath.Join(dir, id+".conf")
		text := fmt.Sprintf(natsConfig, id, api, filepath.Join(dir, id), ports[together+i], routes)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return err
		}
		if err := s.launch(id, dir, exec.Command("nats-server", "--config", config)); err != nil {
			return err
		}
	}
	return nil
}

// postgres runs PostgreSQL's programs in a directory, under an account of its own if this process is root, as they
// refuse to run as root.
type postgres struct {
	dir string
	as  *syscall.SysProcAttr
}

func newPostgres(dir string) (pg postgres, err error) {
	pg.dir = dir
	if os.Getuid() != 0 {
		return pg, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return pg, err
	}
	uid, bad := strconv.Atoi(u.Uid)
	gid, worse := strconv.Atoi(u.Gid)
	pg.as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return pg, cmp.Or(bad, worse, os.Chown(dir, uid, gid))
}

func (pg postgres) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.SysProcAttr, cmd.Env = pg.dir, pg.as, append(os.Environ(), "LC_ALL=C")
	return cmd
}

// launch starts a server on the data directory called name, and returns its port.
func (pg postgres) launch(s *peerServers, name string, settings ...string) (port int, err error) {
	if port, err = rig.FreePort(); err != nil {
		return 0, err
	}
	args := []string{"-D", filepath.Join(pg.dir, name), "-p", strconv.Itoa(port), "-k", pg.dir, "-h", "127.0.0.1"}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return port, s.launch(name, pg.dir, pg.command(context.Background(), "postgres", args...))
}

// primary makes a database and starts it as the one that is asked.
func (pg postgres) primary(ctx context.Context, s *peerServers, settings ...string) (port int, err error) {
	initial := pg.command(ctx, "initdb", "-D", filepath.Join(pg.dir, "primary"), "-U", "rota", "-A", "trust")
	if out, err := initial.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if port, err = pg.launch(s, "primary", append(settings, "shared_buffers=512MB")...); err == nil {
		s.apis = []string{fmt.Sprintf("127.0.0.1:%d", port)}
	}
	return port, err
}

func startPostgres(ctx context.Context, s *peerServers, dir string) error {
	pg, err := newPostgres(dir)
	if err == nil {
		_, err = pg.primary(ctx, s)
	}
	return err
}

// startPostgresMajority starts a primary and two standbys: a commit waits for the disk of the primary and of one of them.
func startPostgresMajority(ctx context.Context, s *peerServers, dir string) error {
	pg, err := newPostgres(dir)
	if err != nil {
		return err
	}
	port, err := pg.primary(ctx, s, "synchronous_standby_names=ANY 1 (s1, s2)")
	if err != nil {
		return err
	}
	for _, name := range []string{"s1", "s2"} {
		from := fmt.Sprintf("host=127.0.0.1 port=%d user=rota application_name=%s", port, name)
		if err := rig.Within(30*time.Second, func() error { // until the primary answers
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				return err
			}
			copied := pg.command(ctx, "pg_basebackup", "-d", from, "-D", filepath.Join(dir, name), "-R", "-c", "fast")
			if out, err := copied.CombinedOutput(); err != nil {
				return fmt.Errorf("pg_basebackup: %w\n%s", err, out)
			}
			return nil
		}); err != nil {
			return err
		}
		if _, err := pg.launch(s, name); err != nil {
			return err
		}
	}
	return nil
}

func startRedis(_ context.Context, s *peerServers, dir string) error {
	port, err := rig.FreePort()
	if err != nil {
		return err
	}
	s.apis = []string{fmt.Sprintf("127.0.0.1:%d", port)}
	return s.launch("redis", dir, exec.Command("redis-server", "--bind", "127.0.0.1", "--port", strconv.Itoa(port),
		"--dir", dir, "--appendonly", "yes", "--appendfsync", "always", "--save", ""))
}

func startBeanstalkd(_ context.Context, s *peerServers, dir string) error {
	port, err := rig.FreePort()
	if err != nil {
		return err
	}
	s.apis = []string{fmt.Sprintf("127.0.0.1:%d", port)}
	return s.launch("beanstalkd", dir, exec.Command("beanstalkd", "-l", "127.0.0.1", "-p", strconv.Itoa(port), "-b",
		dir, "-f", "0"))
}
