package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rotasched/rota"
)

// Definition is a job type with the Go types of what its handler takes and returns. It is
// made by Define, as a rule once as a variable of a package that both sides import: the one
// that submits and the one that works. It is safe for use by many goroutines.
type Definition[In, Out any] struct {
	of *defined
}

// defined is what a definition says, whatever its types.
type defined struct {
	typ     rota.JobType
	codec   Codec
	options []JobOption
}

// Define returns the definition of a job type. Payload and output are JSON unless Encoded
// says otherwise; each JobOption holds for every job of the definition.
func Define[In, Out any](typ rota.JobType, opts ...DefineOption) Definition[In, Out] {
	d := &defined{typ: typ, codec: JSON}
	for _, o := range opts {
		o.define(d)
	}
	return Definition[In, Out]{d}
}

// Type returns the job type.
func (d Definition[In, Out]) Type() rota.JobType { return d.of.typ }

// Job returns a job, to be submitted beside others by Client.Submit, or by a schedule. A value
// that does not encode is refused as INVALID(payload).
func (d Definition[In, Out]) Job(in In, opts ...JobOption) (rota.JobSpec, error) {
	payload, err := d.of.codec.Marshal(in)
	if err != nil {
		return rota.JobSpec{}, rota.Refusef(rota.KindInvalid, "payload", "payload: cannot encode a %[2]T for a job of type %[1]s: %[3]v", d.of.typ, in, err)
	}
	spec := rota.NewJobSpec(d.of.typ, payload)
	for _, o := range d.of.options {
		o.set(&spec)
	}
	for _, o := range opts {
		o.set(&spec)
	}
	return spec, nil
}

// Submit submits one job and returns its handle. The error is what Client.Submit returns: a
// *RefusedError where the job was refused, or one of kind Invalid where in does not encode; there
// is no handle then. After any other error the
// outcome is unknown; the handle has the id, with which submitting again is no second job.
func (d Definition[In, Out]) Submit(ctx context.Context, c *Client, in In, opts ...JobOption) (*Handle[Out], error) {
	spec, err := d.Job(in, opts...)
	if err != nil {
		return nil, err
	}
	outcomes, err := c.Submit(ctx, spec)
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		return nil, err
	}
	if len(outcomes) != 1 { // a submitter of WithSubmitter kept it back
		return nil, cmp.Or(err, error(rota.Refusef(rota.KindInternal, "outcomes", "outcomes: got %d for one job, want 1", len(outcomes))))
	}
	h := d.Of(c, outcomes[0].ID)
	h.submitted = outcomes[0]
	if holder := outcomes[0].Holder; holder != "" {
		h.id = holder
	}
	return h, err
}

// Of returns the handle of a job that was submitted before, here or elsewhere. It asks nobody.
func (d Definition[In, Out]) Of(c *Client, id rota.JobID) *Handle[Out] {
	return &Handle[Out]{client: c, codec: d.of.codec, id: id, typ: d.of.typ, submitted: rota.Submitted{ID: id}}
}

// Handler returns a handler of a function on decoded values. An empty payload leaves In zero;
// one that does not decode is not tried again. An Out of type Result is the attempt's result
// itself, which may have meta and children.
func (d Definition[In, Out]) Handler(h func(ctx context.Context, job *Job, in In) (Out, error)) Handler {
	codec := d.of.codec
	return func(ctx context.Context, job *Job) (Result, error) {
		var in In
		if len(job.Payload()) > 0 {
			if err := codec.Unmarshal(job.Payload(), &in); err != nil {
				return Result{}, NoRetry(fmt.Errorf("decode payload: %w", err))
			}
		}
		out, err := h(ctx, job, in)
		if err != nil {
			return Result{}, err
		}
		if result, ok := any(out).(Result); ok {
			return result, nil
		}
		output, err := codec.Marshal(out)
		if err != nil {
			return Result{}, NoRetry(fmt.Errorf("encode output: %w", err))
		}
		return Result{Output: output}, nil
	}
}

// Handle has a worker do the jobs of the definition with a function on decoded values. See
// Handler and Worker.Handle.
func (d Definition[In, Out]) Handle(w *Worker, h func(ctx context.Context, job *Job, in In) (Out, error)) {
	w.Handle(d.of.typ, d.Handler(h))
}

// Codec turns values into payloads and outputs, and back.
type Codec interface {
	Marshal(v any) ([]byte, error)
	// Unmarshal decodes into what v points to.
	Unmarshal(data []byte, v any) error
}

// JSON is the codec of definitions that name none: encoding/json.
var JSON Codec = jsonCodec{}

type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

func (jsonCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// Bytes is the codec of values that are bytes or text already: In and Out are []byte or string.
var Bytes Codec = bytesCodec{}

type bytesCodec struct{}

func (bytesCodec) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	}
	return nil, fmt.Errorf("a %T is neither []byte nor string", v)
}

func (bytesCodec) Unmarshal(data []byte, v any) error {
	switch v := v.(type) {
	case *[]byte:
		*v = append([]byte(nil), data...)
	case *string:
		*v = string(data)
	default:
		return fmt.Errorf("%T is neither *[]byte nor *string", v)
	}
	return nil
}

// Encoded sets the codec of a definition's payloads and outputs.
func Encoded(codec Codec) DefineOption { return codecOption{codec} }

type codecOption struct{ codec Codec }

func (o codecOption) define(d *defined) { d.codec = o.codec }
