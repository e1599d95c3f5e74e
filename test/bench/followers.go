package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// followersRate is the number of jobs a second while events are followed.
const followersRate = 300

// measureFollowers compares the servers' cost of followers of events, by gRPC and over HTTP, with jobs of a fixed rate
// that no one follows. Followers count the bytes that arrive and decode nothing.
func (p *plan) measureFollowers(ctx context.Context) error {
	m, err := p.look(ctx)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d followers of all events at %d jobs/s, %d s each:\n\n|followers|servers' CPU, %% of a core|bytes a follower, KiB/s|\n|---|--:|--:|\n", p.followers, followersRate, p.seconds)
	err = p.cluster(ctx, p.rota, nil, func(s *servers) error {
		c, err := s.Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		w, err := client.NewWorker(c, rota.WorkerSpec{Queues: []rota.QueueName{rota.DefaultQueue}, Slots: 256,
			Prefetch: 256})
		if err != nil {
			return err
		}
		w.Handle("followed", func(context.Context, *client.Job) (client.Result, error) { return client.Result{}, nil })
		working, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- w.Run(working) }()
		for _, how := range []struct {
			name   string
			follow func(context.Context, string, *atomic.Int64) error
		}{{"none", nil}, {"gRPC", followGRPC}, {"server-sent events", followBlocks}} {
			if err = p.followed(ctx, s, c, &b, how.name, how.follow); err != nil {
				break
			}
		}
		stop()
		return cmp.Or(err, <-done)
	})
	if err != nil {
		return err
	}
	return p.publish("followers", b.String()+"\n"+m.markdown())
}

// followed measures one kind of followers.
func (p *plan) followed(ctx context.Context, s *servers, c *client.Client, b *strings.Builder, name string,
	follow func(context.Context, string, *atomic.Int64) error) error {
	following, stop := context.WithCancel(ctx)
	var group errgroup.Group
	var bytes atomic.Int64
	n := 0
	if follow != nil {
		for n = range p.followers {
			to := s.Nodes[n%len(s.Nodes)].API
			group.Go(func() error {
				if err := follow(following, to, &bytes); err != nil && following.Err() == nil {
					return err
				}
				return nil
			})
		}
		n++
	}
	if err := p.load(ctx, c, name+"-warm", 2); err != nil { // all followers are connected
		stop()
		return err
	}
	before, err := s.cpu()
	sent := bytes.Load()
	began := time.Now()
	err = cmp.Or(err, p.load(ctx, c, name, p.seconds))
	took := time.Since(began).Seconds()
	after, failed := s.cpu()
	sent = bytes.Load() - sent
	stop()
	if err := cmp.Or(err, failed, group.Wait()); err != nil {
		return err
	}
	fmt.Fprintf(b, "|%s|%.0f|%.0f|\n", name, (after-before)/took*100, float64(sent)/took/1024/float64(max(n, 1)))
	return nil
}

// load submits jobs at the rate, in ten batches a second.
func (p *plan) load(ctx context.Context, c *client.Client, name string, seconds int) error {
	tick := time.NewTicker(time.Second / 10)
	defer tick.Stop()
	name = strings.ReplaceAll(name, " ", "-")
	for i := range seconds * 10 {
		<-tick.C
		jobs := make([]rota.JobSpec, followersRate/10)
		for k := range jobs {
			jobs[k] = rota.NewJobSpec("followed", nil)
			jobs[k].ID = rota.JobID(fmt.Sprintf("%s-%d-%d", name, i, k))
		}
		if _, err := c.Submit(ctx, jobs...); err != nil {
			return err
		}
	}
	return nil
}

func followGRPC(ctx context.Context, api string, bytes *atomic.Int64) error {
	conn, err := grpc.NewClient("passthrough:///"+api, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, rotav1.Events_Tail_FullMethodName,
		grpc.ForceCodecV2(counting{bytes}))
	if err != nil {
		return err
	}
	if err := stream.SendMsg(&rotav1.TailRequest{From: "latest", Follow: true}); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		if err := stream.RecvMsg(nil); err != nil {
			return err
		}
	}
}

func followBlocks(ctx context.Context, api string, bytes *atomic.Int64) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+api+"/v1/events?from=latest", nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "text/event-stream")
	answer, err := (&http.Client{Transport: &http.Transport{}}).Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("following %s: %s", api, answer.Status)
	}
	from := bufio.NewReaderSize(answer.Body, 64<<10)
	for {
		n, err := from.Discard(max(1, from.Buffered()))
		if bytes.Add(int64(n)); err != nil {
			return err
		}
	}
}

// counting is a codec that counts arriving bytes and decodes nothing.
type counting struct{ bytes *atomic.Int64 }

// Marshal implements encoding.CodecV2.
func (counting) Marshal(v any) (mem.BufferSlice, error) {
	text, err := proto.Marshal(v.(proto.Message))
	return mem.BufferSlice{mem.SliceBuffer(text)}, err
}

// Unmarshal implements encoding.CodecV2.
func (c counting) Unmarshal(data mem.BufferSlice, _ any) error {
	c.bytes.Add(int64(data.Len()))
	return nil
}

// Name implements encoding.CodecV2.
func (counting) Name() string { return "proto" }
