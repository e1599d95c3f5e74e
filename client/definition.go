package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rotasched/rota"
)

// Definition is a job type with the Go types of its handler's input and output. Create it with Define, usually once as
// a variable of a package that both producers and workers import. It is safe for concurrent use.
type Definition[In, Out any] struct {
	of *defined
}

// defined is the part of a definition that does not depend on its types.
type defined struct {
	typ     rota.JobType
	codec   Codec
	options []JobOption
}

// Define returns the definition of a job type. Payload and output are JSON unless Encoded sets another codec; each
// JobOption applies to every job of the definition.
func Define[In, Out any](typ rota.JobType, opts ...DefineOption) Definition[In, Out] {
	d := &defined{typ: typ, codec: JSON}
	for _, o := range opts {
		o.define(d)
	}
	return Definition[In, Out]{d}
}

// Type returns the job type.
func (d Definition[In, Out]) Type() rota.JobType { return d.of.typ }

// Job returns a job for Client.Submit, together with other jobs, or for a schedule. A value that does not encode is
// rejected as INVALID(payload).
func (d Definition[In, Out]) Job(in In, opts ...JobOption) (rota.JobSpec, error) {
	payload, err := d.of.codec.Marshal(in)
	if err != nil {
		return rota.JobSpec{}, rota.Refusef(rota.KindInvalid, "payload",
			"payload: cannot encode a %[2]T for a job of type %[1]s: %[3]v", d.of.typ, in, err)
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

// Submit submits one job and returns its handle. Errors are those of Client.Submit: a *RefusedError if the job was
// refused, or one of kind Invalid if in does not encode; then there is no handle. After any other error the outcome is
// unknown; the handle has the id, and submitting again with that id creates no second job.
func (d Definition[In, Out]) Submit(ctx context.Context, c *Client, in In, opts ...JobOption) (*Handle[Out], error) {
	spec, err := d.Job(in, opts...)
	if err != nil {
		return nil, err
	}
	outcomes, err := c.Submit(ctx, spec)
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		return nil, err
	}
	if len(outcomes) != 1 { // a submitter set by WithSubmitter did not pass the job on
		return nil, cmp.Or(err, error(rota.Refusef(rota.KindInternal, "outcomes",
			"outcomes: got %d for one job, want 1", len(outcomes))))
	}
	h := d.Of(c, outcomes[0].ID)
	h.submitted = outcomes[0]
	if holder := outcomes[0].Holder; holder != "" {
		h.id = holder
	}
	return h, err
}

// Of returns the handle of a job that was submitted earlier, by this process or another. It makes no call.
func (d Definition[In, Out]) Of(c *Client, id rota.JobID) *Handle[Out] {
	return &Handle[Out]{client: c, codec: d.of.codec, id: id, typ: d.of.typ, submitted: rota.Submitted{ID: id}}
}

// Handler returns a handler that calls h with decoded values. An empty payload leaves In zero; a payload that does not
// decode fails the job without another try. If Out is Result, h returns the attempt's whole result, which may have meta
// and children.
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

// Handle makes a worker run the jobs of the definition with h. See Handler and Worker.Handle.
func (d Definition[In, Out]) Handle(w *Worker, h func(ctx context.Context, job *Job, in In) (Out, error)) {
	w.Handle(d.of.typ, d.Handler(h))
}

// Codec converts values to payloads and outputs, and back.
type Codec interface {
	Marshal(v any) ([]byte, error)
	// Unmarshal decodes data into the value that v points to.
	Unmarshal(data []byte, v any) error
}

// JSON is the default codec of definitions: encoding/json.
var JSON Codec = jsonCodec{}

type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

func (jsonCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// Bytes is the codec of values that are already encoded: In and Out are []byte or string.
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
