package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// plan is what to measure, and with which binary.
type plan struct {
	rota, dir, write string
	// most is the time, counted from begin, after which no further measurement begins.
	most  time.Duration
	begin time.Time

	repeat        int
	jobs, payload int
	producers     int // 0 for the loads' own default
	rates         []int
	seconds       int
	against       string
	// peers are other queues to measure, peerJobs is the binary that loads them.
	peers    []peer
	peerJobs string

	scale    scalePlan
	overload overloadPlan
	soak     soakPlan
	// schedules is empty unless schedules are to be measured.
	schedules schedulesPlan
	// followers is 0 unless followers are to be measured.
	followers int
	// regions is empty unless regions are to be measured.
	regions regionsPlan
	// http enables the measurement of submissions over HTTP.
	http bool
}

func main() {
	p := plan{begin: time.Now()}
	rates, pending, workers, rtts := "500,2000", "1000,10000,100000,1000000", "1,10,100,1000,10000", "0,10,40,80"
	var scale, alone, overload, profile, locked, nats, regions, rest bool
	var peerNames string
	flag.StringVar(&p.rota, "rota", "bin/rota", "the binary to measure")
	flag.StringVar(&p.dir, "dir", "", "where the servers' data goes while they run (default: the system's place for such)")
	flag.StringVar(&p.write, "write", "", "file whose part between the two markers is replaced")
	flag.DurationVar(&p.most, "most", 8*time.Minute, "no further repetition begins that would end later than this")
	flag.IntVar(&p.repeat, "repeat", 5, "how often each measurement is made")
	flag.IntVar(&p.jobs, "jobs", 40_000, "jobs of a measurement that goes as fast as it can")
	flag.StringVar(&rates, "rates", rates, "jobs a second of the open loops")
	flag.IntVar(&p.seconds, "seconds", 10, "how long an open loop takes")
	flag.IntVar(&p.payload, "payload", 256, "bytes of payload in each job")
	flag.IntVar(&p.producers, "producers", 0, "calls in flight at most (default: 16, as rota and peerjobs have it)")
	flag.StringVar(&p.against, "against", "", "another binary, measured in turns with this one: prints the ratio")
	flag.BoolVar(&nats, "nats", false, "measure NATS JetStream in turns with rota: prints the ratio")
	flag.StringVar(&peerNames, "peers", "", "other queues to measure in turns with rota, separated by commas: nats, river, asynq, beanstalkd")
	flag.StringVar(&p.peerJobs, "peerjobs", "", "the binary of test/bench/peerjobs, which loads them")
	flag.BoolVar(&profile, "profile", false, "tell where the servers' CPU goes instead, also of -against")
	flag.BoolVar(&scale, "scale", false, "measure with many pending jobs, workers, queues and tenants instead, and restarts")
	flag.BoolVar(&rest, "rest", false, "measure what servers take that have little to do or nothing instead, also of -against")
	flag.BoolVar(&alone, "alone", false, "measure one server with many pending jobs instead, its memory and its start")
	flag.StringVar(&pending, "pending", pending, "numbers of pending jobs")
	flag.StringVar(&workers, "workers", workers, "numbers of connected workers")
	flag.IntVar(&p.scale.queues, "queues", 1_000, "how many queues")
	flag.IntVar(&p.scale.tenants, "tenants", 10_000, "how many tenants")
	flag.StringVar(&p.scale.pictures, "pictures", "", "folder for the curves")
	flag.BoolVar(&overload, "overload", false, "offer three times what the servers can do instead, and judge")
	flag.IntVar(&p.overload.cap, "queue-cap", 20_000, "queue_cap while overloaded")
	flag.IntVar(&p.overload.times, "times", 3, "multiple of the peak that is offered")
	flag.IntVar(&p.overload.memory, "memory", 1024, "MiB that a server may take while overloaded")
	flag.DurationVar(&p.soak.of, "soak", 0, "run at the first of -rates for this time instead, and judge whether anything grows")
	flag.IntVar(&p.soak.warm, "warm", 0, "jobs before a soak, or before the peak of -overload: 1000000 fill the memory of ended ones")
	flag.IntVar(&p.schedules.n, "schedules", 0, "have N schedules fire each minute instead, and compare with plain jobs")
	flag.IntVar(&p.schedules.minutes, "minutes", 3, "how many minutes each part of -schedules takes")
	flag.BoolVar(&locked, "locked", false, "measure with the doors open and locked in turns instead: the cost of tokens and rights")
	flag.IntVar(&p.followers, "followers", 0, "have N clients follow events instead, by gRPC and over HTTP, and print their cost")
	flag.BoolVar(&regions, "regions", false, "measure five nodes in regions with delays between them instead; wants the super-user of Linux")
	flag.StringVar(&rtts, "rtts", rtts, "milliseconds of round trips between regions")
	flag.BoolVar(&p.http, "http", false, "compare submissions over HTTP with those by gRPC instead")
	flag.Parse()
	var err error
	for _, list := range []struct {
		text  string
		least int
		to    *[]int
	}{{rates, 1, &p.rates}, {pending, 1, &p.scale.pending}, {workers, 1, &p.scale.workers}, {rtts, 0, &p.regions.rtts}} {
		var e error
		*list.to, e = numbers(list.text, list.least)
		err = errors.Join(err, e)
	}
	if err == nil && peerNames != "" {
		p.peers, err = find(peerNames)
	}
	if err == nil {
		err = p.check()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if err == nil {
		switch {
		case scale:
			err = p.measureScale(ctx)
		case regions:
			err = p.measureRegions(ctx)
		case p.http:
			err = p.measureHTTP(ctx)
		case p.followers > 0:
			err = p.measureFollowers(ctx)
		case rest:
			err = p.measureRest(ctx)
		case alone:
			err = p.measureAlone(ctx)
		case overload:
			err = p.measureOverload(ctx)
		case p.soak.of > 0:
			err = p.measureSoak(ctx)
		case p.schedules.n > 0:
			err = p.measureSchedules(ctx)
		case locked:
			err = p.measureLocked(ctx)
		case profile:
			err = p.measureProfiles(ctx)
		case len(p.peers) > 0:
			err = p.measurePeers(ctx)
		case nats:
			err = p.measureNATS(ctx)
		case p.against != "":
			err = p.measureAgainst(ctx)
		default:
			err = p.measureTable(ctx)
		}
	}
	interrupted := ctx.Err() != nil
	stop()
	exit(err, interrupted)
}

// exit prints why there is no result, and ends the program.
func exit(err error, interrupted bool) {
	switch {
	case interrupted:
		fmt.Fprintln(os.Stderr, "bench: interrupted: its part of the tables is as it was")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (p *plan) check() error {
	if p.repeat < 1 || p.jobs < 1 || p.seconds < 1 || p.payload < 0 || p.scale.queues < 1 || p.scale.tenants < 1 ||
		p.overload.cap < 1 || p.overload.times < 1 || p.overload.memory < 1 || p.soak.warm < 0 || p.producers < 0 {
		return errors.New("-payload, -warm and -producers are at least 0, all other numbers at least 1")
	}
	return nil
}

// numbers parses a list of whole numbers, each at least least.
func numbers(text string, least int) (all []int, err error) {
	for _, one := range strings.Split(text, ",") {
		var n int
		if _, err := fmt.Sscanf(one+" ", "%d ", &n); err != nil || n < least || fmt.Sprint(n) != strings.TrimSpace(one) {
			return nil, fmt.Errorf("got %q, want whole numbers of at least %d, separated by commas", text, least)
		}
		all = append(all, n)
	}
	return all, nil
}

// say prints the progress.
func (p *plan) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: %4.0f s  %s\n", time.Since(p.begin).Seconds(), fmt.Sprintf(format, args...))
}

// publish prints a result, and writes it to the file of -write, in the part with that name.
func (p *plan) publish(part, text string) error {
	fmt.Print(text)
	if p.write == "" {
		return nil
	}
	return replaceBetween(p.write, part, text)
}

// cluster runs servers of a binary while do runs, in a folder of their own that is removed afterwards.
func (p *plan) cluster(ctx context.Context, rota string, prefix []string, do func(*servers) error) error {
	return p.clusterOf(ctx, together, rota, prefix, do)
}

func (p *plan) clusterOf(ctx context.Context, nodes int, rota string, prefix []string, do func(*servers) error) (err error) {
	dir, err := os.MkdirTemp(p.dir, "rota-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := startServers(ctx, rota, dir, nodes, prefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	return do(s)
}
