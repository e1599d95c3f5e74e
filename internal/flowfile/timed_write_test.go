package flowfile

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// ranJob is a job that waited from 1,000 on and ran from 3,000 to 8,000, by a wall clock that leapt by an hour meanwhile.
func ranJob() rota.Job {
	at := func(clock rota.Clock) rota.Moment { return rota.Moment{Clock: clock, Date: rota.Date(clock)} }
	j := rota.Job{JobSpec: rota.NewJobSpec("render", []byte("secret")), State: rota.JobCompleted, Submitted: at(500),
		Enqueued: at(1_000), FirstLease: at(1_200),
		Attempts: []rota.Attempt{{Started: at(1_200), Ended: at(1_300)},
			{Started: at(3_000), Ended: rota.Moment{Clock: 8_000, Date: 3_608_000}}}}
	j.ID, j.Queue, j.Tenant, j.Labels, j.Headers = "a/b", "batch", "ann", map[string]string{"l": "secret"}, map[string]string{"h": "secret"}
	j.Keys, j.Unique, j.Batch, j.Delay, j.MaxRuntime, j.NotBefore = []string{"k:1"}, &rota.Unique{Key: "u"}, "b", time.Second, time.Hour, time.UnixMilli(900)
	j.CPUMilli, j.MemoryBytes, j.IOBytesPerS, j.Requires, j.Expected, j.Fee, j.Priority = 2000, 7, 8, []string{"gpu"}, time.Minute, 9, 3
	j.Costs, j.Spent = rota.Costs{"usd": 5}, rota.Costs{"usd": 7}
	return j
}

// TestTimedLine reads only those parts of a line that decide on the job, and none of its content.
func TestTimedLine(t *testing.T) {
	t.Parallel()
	j := ranJob()
	line, submit, why := TimedLine(&j)
	if why != "" || submit != 1_000 || strings.Contains(string(line), "secret") {
		t.Fatalf("%s, %d, %q", line, submit, why)
	}
	for _, part := range []string{`"state":"COMPLETED"`, `"submit_ms":1000`, `"start_ms":3000`, `"run_ms":5000`,
		`"id":"a/b"`, `"queue":"batch"`} {
		if !strings.Contains(string(line), part) {
			t.Errorf("no %s in %s", part, line)
		}
	}
	read, err := ReadTrace(bytes.NewReader(line), 9)
	if err != nil || len(read.Timed) != 1 {
		t.Fatal(err)
	}
	got := read.Timed[0]
	if s := &got.Spec; got.SubmitMs != 1_000 || got.RunMs != 5_000 || s.Type != "render" || s.Tenant != "ann" ||
		s.CPUMilli != 2000 || s.MemoryBytes != 7 || s.IOBytesPerS != 8 ||
		!slices.Equal(s.Requires, []string{"gpu"}) || s.Expected != time.Minute || s.Fee != 9 || s.Priority != 3 ||
		s.SizeBytes != 6 ||
		!slices.Equal(s.Keys, []string{"k:1"}) || s.Costs["usd"] != 5 || got.Spent["usd"] != 7 || s.Unique != nil || s.Batch != "" || s.Delay != 0 || s.MaxRuntime != 0 ||
		!s.NotBefore.IsZero() || s.Labels != nil || s.Headers != nil || s.Payload != nil {
		t.Errorf("%+v", got)
	}
	for what, change := range map[string]func(*rota.Job){
		"retention has dropped their records": func(j *rota.Job) { j.RecordDropped = true },
		"they never waited for a worker":      func(j *rota.Job) { j.Enqueued = rota.Moment{} },
		"they never ran":                      func(j *rota.Job) { j.Attempts = nil },
	} {
		j := ranJob()
		change(&j)
		if line, _, why := TimedLine(&j); why != what || line != nil {
			t.Errorf("%s: %q, %s", what, why, line)
		}
	}
	for _, live := range []rota.JobState{rota.JobQueued, rota.JobRunning} {
		j := ranJob()
		j.State, j.Attempts = live, nil
		if live == rota.JobRunning {
			j.Lease = &rota.Lease{Started: rota.Moment{Clock: 4_000, Date: 4_000}}
		}
		line, _, why := TimedLine(&j)
		read, err := ReadTrace(bytes.NewReader(line), 9)
		if why != "" || err != nil || read.Timed[0].RunMs != -1 ||
			strings.Contains(string(line), "start_ms") != (live == rota.JobRunning) {
			t.Errorf("%s: %s, %q, %v", live, line, why, err)
		}
	}
}

// TestSorter sorts random lines, in memory and by way of a file, as a naive sort does.
func TestSorter(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 27))
		s := Sorter{Holds: []int{0, 1, 200, 1_000}[seed%4]}
		type line struct {
			at   int64
			text string
		}
		var want []line
		for i := range r.IntN(200) {
			l := line{r.Int64N(20) - 5, fmt.Sprint(strings.Repeat("x", r.IntN(40)), i)}
			want = append(want, l)
			if err := s.Add(l.at, []byte(l.text)); err != nil {
				t.Fatal(err)
			}
		}
		slices.Reverse(want)
		slices.SortStableFunc(want, func(a, b line) int { return int(a.at - b.at) })
		var texts, got bytes.Buffer
		for _, l := range want {
			fmt.Fprintln(&texts, l.text)
		}
		if n, err := s.WriteTo(&got); err != nil || n != int64(texts.Len()) || got.String() != texts.String() {
			t.Fatalf("seed %d: %v, %d bytes\n%s\nwant\n%s", seed, err, n, &got, &texts)
		}
		file := s.file
		if spilled := file != nil; spilled != (seed%4 > 0 && len(want) > 12) && len(want) > 40 {
			t.Errorf("seed %d: a file is used: %v", seed, spilled)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if file != nil {
			if _, err := os.Stat(file.Name()); !os.IsNotExist(err) {
				t.Errorf("seed %d: %s is left: %v", seed, file.Name(), err)
			}
		}
	}
}
