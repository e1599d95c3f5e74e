package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// TestUniqueRace has a hundred submitters at three nodes request the same key at once: one job holds it, and every
// answer names that job (SPEC §18.1).
func TestUniqueRace(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	q := c.policyQueue(t, "unique", "standard")
	for _, how := range []string{rota.UniqueRefuse, rota.UniqueExisting} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			var mu sync.Mutex
			var taken []rota.JobID
			var told []string
			var submitters sync.WaitGroup
			for i := range 100 {
				n := c.dial(t, c.all[i%len(c.all)])
				submitters.Add(1)
				go func() {
					defer submitters.Done()
					job := policyJob(fmt.Sprint(how, "-", i), q)
					job.Unique = &rota.Unique{Key: how, OnConflict: how}
					out, err := n.Submit(ctx, job)
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil && !out[0].Existed:
						taken = append(taken, out[0].ID)
					case err == nil && how == rota.UniqueExisting:
						told = append(told, fmt.Sprintf("job %s holds", out[0].Holder))
					case rota.KindOf(err) == rota.KindConflict && how == rota.UniqueRefuse:
						told = append(told, err.Error())
					default:
						t.Errorf("%v, %v", out, err)
					}
				}()
			}
			submitters.Wait()
			if len(taken) != 1 {
				t.Fatalf("%d jobs hold one key: %v", len(taken), taken)
			}
			for _, text := range told {
				contains(t, "the answer", text, fmt.Sprintf("job %s holds", taken[0]))
			}
			job, err := c.dial(t).Job(ctx, taken[0])
			if err != nil || job.State != rota.JobQueued || job.UniqueHolder != taken[0] {
				t.Fatalf("%+v, %v", job, err)
			}
		})
	}
}

// TestUniqueCLI is a user's session: a refusal, a debounce, and the holder of the key.
func TestUniqueCLI(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	submit := func(id string, more ...string) *result {
		return c.rota(t, append([]string{"job", "submit", "--type", "t", "--id", id, "-o", "json"}, more...)...)
	}
	submit("a", "--unique-key", "shop").want(t, 0)
	r := submit("b", "--unique-key", "shop")
	r.want(t, 4)
	contains(t, "the refusal", r.stderr, "job a holds the key", "unique.on_conflict")
	job := object(t, submit("c", "--unique-key", "shop", "--unique-on-conflict", "replace", "--payload", "new"))
	if job["id"] != "a" || job["payload"] != "new" || job["unique_holder"] != "a" {
		t.Fatalf("%v", job)
	}
	contains(t, "job show", c.rota(t, "job", "show", "a").stdout, "by key shop, which it holds")
	if why := object(t, c.rota(t, "job", "why", "a", "-o", "json")); why["unique_holder"] != "a" {
		t.Fatalf("%v", why)
	}
	kept := object(t, submit("d", "--unique-by", "type,args", "--unique-period", "1h", "--unique-scope",
		"pending,completed", "--unique-keep", "1d", "--unique-on-conflict", "extend", "--unique-extend-max", "5m"))
	unique, _ := kept["unique"].(map[string]any)
	if fmt.Sprint(unique["by"], unique["scope"], unique["period_ms"], unique["keep_ms"], unique["extend_max_ms"]) !=
		"[type args] [PENDING COMPLETED] 3.6e+06 8.64e+07 300000" {
		t.Fatalf("%v", unique)
	}
	r = submit("e", "--unique-key", "x", "--unique-by", "type")
	r.want(t, 2)
	contains(t, "the refusal", r.stderr, "set only one of them")
}
