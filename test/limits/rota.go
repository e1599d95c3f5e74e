package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/rig"
)

// rotaQueue is the queue of all jobs, rotaSlots the number of jobs that a worker runs at once.
const (
	rotaQueue = "calls"
	rotaSlots = 64
)

// calling is the job type with its payload; the result is what the call spent.
var calling = client.Define[job, int]("call", client.Queue(rotaQueue), client.Retry(20))

var rotaSystem = system{
	name: "rota", title: "rota", has: map[kind]bool{short: true, long: true, costly: true},
	server: "the leader of three nodes",
	settings: []string{
		"Three nodes, each with its own data directory; every commit is synced on two of them.",
		"One queue with `lease_ms=30s` and `lease_grace_on_disconnect=10s`. The defaults are 1 minute and off. With the " +
			"grace off, a run with a killed worker on 2026-11-30 left 27 % of starts and 100 % of concurrency unused.",
		"Rule `calls`: concurrency 3, rate 50 per second, burst 50. " +
			"Rule `units`: 100,000 units per minute, burst 20,000.",
		"The handler reports with `Spend`. It ends its call when its context ends.",
	},
	goDir: func(*bench) string { return "test/limits" },
	start: startRota,
	client: func(b *bench, role string, skewed bool) []string {
		return []string{b.goProgram("rota", b.self, skewed), role}
	},
}

type rotaServers struct {
	nodes  rig.Nodes
	client *client.Client
	binary string
}

func startRota(ctx context.Context, b *bench) (servers, error) {
	dir, err := os.MkdirTemp(b.dir, "rota-")
	if err != nil {
		return nil, err
	}
	nodes, err := rig.NewNodes(3, dir, b.rota)
	if err != nil {
		return nil, err
	}
	s := &rotaServers{nodes: nodes, binary: b.rota}
	if err := nodes.Start(ctx); err != nil {
		s.stop()
		return nil, err
	}
	if s.client, err = nodes.Dial(); err != nil {
		s.stop()
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// prepare sets the queue and the rules, as soon as the rules version allows it.
func (s *rotaServers) prepare(ctx context.Context) error {
	err := rig.Until(ctx, func() error {
		status, err := s.client.Status(ctx)
		if err == nil && status.RulesVersion < 2 {
			err = fmt.Errorf("the cluster has rules version %d, want 2", status.RulesVersion)
		}
		return err
	})
	if err != nil {
		return err
	}
	_, err = s.client.SetQueue(ctx, rotaQueue, "", []rota.Setting{{Key: "lease_ms", Value: "30s"},
		{Key: "ack_timeout_ms", Value: "5s"}, {Key: "lease_grace_on_disconnect_ms", Value: "10s"}})
	keys, l := s.client.Keys(), standard
	return errors.Join(err,
		keys.SetRule(ctx, rota.KeyRule{Name: "calls", Concurrency: int64(l.Concurrency), Rate: int64(l.Rate),
			PeriodMs: 1000, Burst: int64(l.Burst)}),
		keys.SetRule(ctx, rota.KeyRule{Name: "units", Rate: int64(l.Units), PeriodMs: 60_000,
			Burst: int64(l.UnitsBurst), Unit: "units"}))
}

func (s *rotaServers) version() string {
	said, _ := exec.Command(s.binary, "version").Output()
	if fields := strings.Fields(string(said)); len(fields) > 1 {
		return "rota " + fields[1]
	}
	return "rota"
}

func (s *rotaServers) addresses() []string { return s.nodes.APIs() }

func (s *rotaServers) crash(ctx context.Context) (func(context.Context) error, error) {
	status, err := s.client.Status(ctx)
	if err != nil {
		return nil, err
	}
	leader := s.nodes.ByID(string(status.Leader))
	if leader == nil {
		return nil, errors.New("the cluster names no leader")
	}
	leader.Kill()
	return func(ctx context.Context) error { return errors.Join(leader.Start(), leader.AwaitReady(ctx)) }, nil
}

func (s *rotaServers) stop() {
	if s.client != nil {
		_ = s.client.Close()
	}
	s.nodes.Kill()
}

// runRotaClient is the client process of rota: `limits work` and `limits submit`.
func runRotaClient(role string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c, err := client.Dial(strings.Split(os.Getenv("LIMITS_ADDR"), ","), client.WithInsecure())
	if err != nil {
		return err
	}
	defer c.Close()
	if role == "submit" {
		return rotaSubmit(ctx, c)
	}
	w, err := client.NewWorker(c, rota.WorkerSpec{Queues: []rota.QueueName{rotaQueue}, Slots: rotaSlots})
	if err != nil {
		return err
	}
	calling.Handle(w, func(ctx context.Context, j *client.Job, in job) (int, error) {
		spent, err := callProvider(ctx, in)
		if err == nil {
			err = j.Spend("units", float64(spent))
		}
		return spent, err
	})
	fmt.Println("ready")
	return w.Run(ctx)
}

// maxBatch is how many jobs one submission holds.
const maxBatch = 200

// rotaSubmit submits the jobs that it reads, and prints the id of each that was acknowledged.
func rotaSubmit(ctx context.Context, c *client.Client) error {
	lines := make(chan job, 10_000)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(os.Stdin); scan.Scan(); {
			var j job
			if json.Unmarshal(scan.Bytes(), &j) == nil {
				lines <- j
			}
		}
	}()
	fmt.Println("ready")
	for j := range lines {
		batch := []rota.JobSpec{}
		for more := true; more; {
			spec, err := calling.Job(j, client.ID(rota.JobID(j.ID)), client.Key("calls", j.Key),
				client.Key("units", j.Key), client.Cost("units", float64(j.Units)))
			if err != nil {
				return err
			}
			if batch = append(batch, spec); len(batch) == maxBatch {
				break
			}
			select {
			case j, more = <-lines:
			default:
				more = false
			}
		}
		outcomes, err := client.EachOutcome(c.Submit(ctx, batch...))
		if err != nil {
			return err
		}
		for i, o := range outcomes {
			if o.Err == nil {
				fmt.Println(batch[i].ID)
			}
		}
	}
	return nil
}

// callProvider makes the call of a job and returns what it spent.
func callProvider(ctx context.Context, j job) (int, error) {
	q := url.Values{"key": {j.Key}, "job": {j.ID}, "units": {strconv.Itoa(j.Units)}, "ms": {strconv.Itoa(j.Ms)},
		"worker": {os.Getenv("LIMITS_WORKER")}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, os.Getenv("LIMITS_PROVIDER")+"/call?"+q.Encode(), nil)
	if err != nil {
		return 0, err
	}
	answer, err := providerClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

var providerClient = &http.Client{Timeout: 3 * time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: rotaSlots}}
