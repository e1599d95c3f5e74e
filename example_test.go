package rota_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rotasched/rota"
)

// Test an error's kind with its sentinel, through any wrapping.
func ExampleError_Is() {
	err := fmt.Errorf("look up the photo: %w", rota.Refusef(rota.KindNotFound, "photo-4711",
		"job photo-4711 is not known"))
	fmt.Println(errors.Is(err, rota.ErrNotFound), errors.Is(err, rota.ErrConflict))
	fmt.Println(rota.KindOf(err))
	// Output:
	// true false
	// NOT_FOUND
}

// Durations are Go's own; JSON has them in milliseconds.
func ExampleNewJobSpec() {
	spec := rota.NewJobSpec("resize", []byte(`{"width":640}`))
	spec.ID, spec.MaxRuntime = "photo-4711", 2*time.Minute
	text, err := json.Marshal(spec)
	fmt.Println(string(text), err)
	// Output: {"id":"photo-4711","queue":"default","type":"resize","priority":5,"payload":"{\"width\":640}","max_runtime_ms":120000} <nil>
}

func ExampleParseDuration() {
	d, err := rota.ParseDuration("1d12h")
	fmt.Println(d, err)
	// Output: 36h0m0s <nil>
}

// A node of a workflow is a job of its own, under the workflow's id.
func ExampleNodeJobID() {
	id := rota.NodeJobID("nightly", "sum")
	workflow, node, ok := rota.SplitNodeJobID(id)
	fmt.Println(id, workflow, node, ok)
	// Output: nightly/sum nightly sum true
}
