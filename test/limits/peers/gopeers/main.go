package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// job is one call to make.
type job struct {
	ID    string `json:"id"`
	Key   string `json:"key"`
	Units int    `json:"units"`
	Ms    int    `json:"ms"`
}

// limits are those that every key has.
type limits struct{ Concurrency, Rate int }

// peer is a job system. work runs a worker until ctx ends. submitter returns a function that stores one job durably;
// storing a job again is not an error.
type peer interface {
	work(ctx context.Context) error
	submitter(ctx context.Context) (func(ctx context.Context, j job) error, error)
}

var peers = map[string]peer{"asynq": asynqPeer{}, "temporal": temporalPeer{}}

func main() {
	if len(os.Args) != 3 || peers[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: gopeers PEER work|submit")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	p := peers[os.Args[1]]
	var err error
	if os.Args[2] == "work" {
		err = p.work(ctx)
	} else {
		err = submit(ctx, p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gopeers:", err)
		stop()
		os.Exit(1) //nolint:gocritic // the deferred call only releases what ends with the process
	}
}

// submitters is how many jobs are submitted at a time.
const submitters = 16

// submit submits the jobs that it reads. A job that fails is submitted again with the same id.
func submit(ctx context.Context, p peer) error {
	store, err := p.submitter(ctx)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	lines := make(chan job, 10_000)
	var all sync.WaitGroup
	for range submitters {
		all.Go(func() {
			for j := range lines {
				for ctx.Err() == nil {
					once, cancel := context.WithTimeout(ctx, 5*time.Second)
					err := store(once, j)
					cancel()
					if err == nil {
						fmt.Println(j.ID)
						break
					}
					fmt.Fprintln(os.Stderr, "submit:", err)
					time.Sleep(500 * time.Millisecond)
				}
			}
		})
	}
	for scan := bufio.NewScanner(os.Stdin); scan.Scan(); {
		var j job
		if err := json.Unmarshal(scan.Bytes(), &j); err != nil {
			return err
		}
		lines <- j
	}
	close(lines)
	all.Wait()
	return nil
}

// keyLimits returns the limits of the environment.
func keyLimits() (l limits) {
	_ = json.Unmarshal([]byte(os.Getenv("LIMITS_LIMITS")), &l)
	return l
}

// slots is the number of jobs that a worker runs at once.
const slots = 64

var provider = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: slots}}

// call makes the call of a job and returns what it spent.
func call(ctx context.Context, j job) (int, error) {
	q := url.Values{"key": {j.Key}, "job": {j.ID}, "units": {strconv.Itoa(j.Units)}, "ms": {strconv.Itoa(j.Ms)},
		"worker": {os.Getenv("LIMITS_WORKER")}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, os.Getenv("LIMITS_PROVIDER")+"/call?"+q.Encode(), nil)
	if err != nil {
		return 0, err
	}
	answer, err := provider.Do(r)
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
