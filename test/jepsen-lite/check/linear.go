package check

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rotasched/rota"
)

// linearLimits bound the search for an order: a search that takes longer is left undecided.
type linearLimits struct{ job, all time.Duration }

// maxLinear is far more than a history without a violation needs.
var maxLinear = linearLimits{job: 10 * time.Second, all: 3 * time.Minute}

// checkLinear uses porcupine to search, for each job by itself, an order of its operations that one queue could have
// done, each between its invocation and its return. Jobs are checked one by one, as porcupine's own partitions would
// all be searched at once, and the first that is illegal would end the search.
func checkLinear(v *view) []Anomaly { return judgeLinear(v, maxLinear) }

func judgeLinear(v *view, limits linearLimits) (found []Anomaly) {
	began := time.Now()
	results := make([]porcupine.CheckResult, len(v.ids))
	counts := make([]int, len(v.ids))
	next := make(chan int)
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for i := range next {
				history := linearHistory(v, v.ids[i])
				counts[i], results[i] = len(history), porcupine.Unknown
				if left := limits.all - time.Since(began); left > 0 {
					results[i] = porcupine.CheckOperationsTimeout(linearModel, history, min(left, limits.job))
				}
			}
		})
	}
	for i := range v.ids {
		next <- i
	}
	close(next)
	all.Wait()
	undecided, operations := []string(nil), 0
	for i, id := range v.ids {
		operations += counts[i]
		switch results[i] {
		case porcupine.Unknown:
			undecided = append(undecided, id)
		case porcupine.Illegal:
			found = append(found, illegal(v, id, len(found) < maxPictures, limits.job))
		}
	}
	if len(undecided) > 0 {
		v.undecided = append(v.undecided,
			fmt.Sprintf("linear: %d jobs had too many orders for %s each and %s in all, such as %s",
				len(undecided), limits.job, limits.all, strings.Join(undecided[:min(5, len(undecided))], " ")))
	}
	v.figures["linear_jobs"], v.figures["linear_operations"] = len(v.ids)-len(undecided), operations
	v.figures["linear_ms"] = time.Since(began).Milliseconds()
	return found
}

// linearHistory is the input of porcupine for a job.
func linearHistory(v *view, id string) []porcupine.Operation {
	ops := v.linearOps(id)
	number := numbered(ops)
	queue := v.Queues[v.queue[id]]
	_, _, node := rota.SplitNodeJobID(rota.JobID(id))
	of := &nature{mortal: queue.AttemptMax < 100, expires: queue.TTLMs > 0, node: node}
	shown := make(map[string]uint16, len(number))
	for t, n := range number {
		shown[id+"/"+t.String()] = n
	}
	clients, given := make(map[string]int), earliest(ops, number)
	history := make([]porcupine.Operation, 0, len(ops))
	for _, op := range ops {
		client, known := clients[op.Process]
		if !known {
			client = len(clients)
			clients[op.Process] = client
		}
		of.expires = of.expires || op.TTLMs > 0
		c := &call{Op: op, of: of, token: number[op.Token], shown: shown[op.Output]}
		history = append(history, porcupine.Operation{ClientId: client, Input: c, Output: nil, Call: op.Invoke,
			Return: max(op.Return, op.Invoke)})
		if o := &history[len(history)-1]; op.Func == OpStart || op.Func == OpGrant {
			o.Call = min(given[c.token], o.Return)
		}
	}
	return history
}

// linearOps returns the operations that count, and those on the workflow that the job is a node of: a rerun may have
// revived it. Of the operations without a known outcome that can happen only once, the first represents all.
func (v *view) linearOps(id string) (ops []*Op) {
	w, _, node := rota.SplitNodeJobID(rota.JobID(id))
	if node {
		for _, op := range v.flows[string(w)] {
			if op.Func == OpFlowRetry && op.Outcome != Refused {
				ops = append(ops, &Op{Process: op.Process, Func: opRetry, Job: id, Invoke: op.Invoke, Return: never,
					Outcome: Unknown})
			}
		}
	}
	revived := len(ops) > 0
	for _, op := range v.jobs[id] {
		revived = revived || op.Func == opRetry
	}
	var submits, cancels bool
	for _, op := range v.jobs[id] {
		once := op.Outcome == Unknown && (op.Func == OpSubmit && submits || op.Func == OpCancel && cancels && !revived)
		if !judged(op) || once {
			continue
		}
		ops = append(ops, op)
		submits = submits || op.Outcome == Unknown && op.Func == OpSubmit
		cancels = cancels || op.Outcome == Unknown && op.Func == OpCancel
	}
	return ops
}

// judged reports whether an operation reveals or changes anything. A decline does neither: a lease may end at any
// moment anyway.
func judged(op *Op) bool {
	switch op.Func {
	case OpSubmit, OpCancel, opRetry:
		return true
	case OpReport:
		return op.Did != DidDecline
	case OpStart, OpGrant:
		return true
	case OpGet, OpWait:
		return op.Outcome != Unknown
	default:
		return false
	}
}

// earliest returns when each lease may have been granted first. The decision came some time before the worker saw the
// lease, but after everything that is known to have happened under an older lease: tokens grow. Without that bound
// every lease could be the first, and the search would try them all.
func earliest(ops []*Op, number map[rota.Token]uint16) []int64 {
	at := make([]int64, len(number)+1)
	for _, op := range ops {
		n := int(number[op.Token])
		sure := op.Outcome == OK && (op.Func == OpReport || op.Func == OpGet || op.Func == OpWait)
		if sure && n > 0 && n+1 < len(at) {
			at[n+1] = max(at[n+1], op.Invoke)
		}
	}
	for n := 1; n < len(at); n++ {
		at[n] = max(at[n], at[n-1])
	}
	return at
}

// maxPictures bounds the jobs that porcupine draws.
const maxPictures = 10

// illegal describes the longest order that exists and the operation that did not fit after it, and adds porcupine's own
// drawing of it to the report.
func illegal(v *view, id string, draw bool, most time.Duration) Anomaly {
	history := linearHistory(v, id)
	_, info := porcupine.CheckOperationsVerbose(linearModel, history, most)
	var longest []porcupine.Operation
	for _, partial := range slices.Concat(info.PartialLinearizationsOperations()...) {
		if len(partial) > len(longest) {
			longest = partial
		}
	}
	state, placed := linearModel.Init(), make(map[any]bool, len(longest))
	for _, o := range longest {
		_, state = linearModel.Step(state, o.Input, o.Output)
		placed[o.Input] = true
	}
	var left strings.Builder
	first, told := never, 0
	for _, o := range history {
		if c := o.Input.(*call); !placed[c] {
			first = min(first, o.Return)
			if told++; told <= 6 {
				fmt.Fprintf(&left, " [%s, %s]", c.describe(), times(c.Op))
			}
		}
	}
	a := Anomaly{IDs: []string{id}, At: first,
		Text: fmt.Sprintf("no order explains job %s: after %d of %d operations it is %s; "+
			"left are%s", id, len(longest), len(history), linearModel.DescribeState(state), left.String())}
	if draw {
		a.Link = fmt.Sprintf("linear-%d.html", len(v.drawings)+1)
		v.drawings = append(v.drawings, picture{a.Link, func(to io.Writer) error {
			return porcupine.Visualize(linearModel, info, to)
		}})
	}
	return a
}

func times(op *Op) string {
	if op.Return == never {
		return seconds(op.Invoke) + " …"
	}
	return seconds(op.Invoke) + " to " + seconds(op.Return)
}
