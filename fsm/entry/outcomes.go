package entry

import (
	"fmt"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// AppendOutcomes encodes fsmpb.Outcomes. An outcome shared by many operations, as is usual, is encoded once.
func AppendOutcomes(b []byte, outcomes []*fsmpb.Outcome, index uint64) ([]byte, error) {
	var last []byte
	for i, o := range outcomes {
		if i > 0 && o == outcomes[i-1] {
			b = append(b, last...)
			continue
		}
		at := len(b)
		long, err := proto.MarshalOptions{}.MarshalAppend(b, &fsmpb.Outcomes{Outcomes: outcomes[i : i+1]})
		if err != nil {
			return nil, fmt.Errorf("encode outcome: %w", err)
		}
		b = long
		last = b[at:len(b):len(b)]
	}
	return appendNumber(b, outcomesIndex, index), nil
}

// OpenOutcomes decodes fsmpb.Outcomes. Consecutive equal encodings give one shared outcome, which must not be changed.
func OpenOutcomes(data []byte, count int) (outcomes []*fsmpb.Outcome, index uint64, ok bool) {
	outcomes = make([]*fsmpb.Outcome, 0, count)
	var last []byte
	for len(data) > 0 {
		f, usual := nextField(&data)
		switch {
		case usual && f.number == outcomesOutcomes && f.kind == protowire.BytesType && len(outcomes) < count:
			if n := len(outcomes); n > 0 && string(f.bytes) == string(last) {
				outcomes = append(outcomes, outcomes[n-1])
				continue
			}
			o := &fsmpb.Outcome{}
			if proto.Unmarshal(f.bytes, o) != nil {
				return nil, 0, false
			}
			outcomes, last = append(outcomes, o), f.bytes
		case usual && f.number == outcomesIndex && f.kind == protowire.VarintType:
			index = f.value
		default:
			return nil, 0, false
		}
	}
	return outcomes, index, len(outcomes) == count
}

// Refused returns the outcome of a refusal.
func Refused(err error) *fsmpb.Outcome {
	o := &fsmpb.Outcome{Kind: uint32(rota.KindOf(err)), Text: err.Error(),
		RetryAfterMs: rota.RetryAfterOf(err).Milliseconds()}
	if e, ok := err.(*rota.Error); ok {
		o.Subject, o.Text = e.Subject, e.Text
	}
	return o
}

// OutcomeError returns an outcome's refusal, nil if there is none.
func OutcomeError(o *fsmpb.Outcome) *rota.Error {
	if o.GetKind() == 0 {
		return nil
	}
	return &rota.Error{Kind: rota.Kind(o.GetKind()), Subject: o.GetSubject(), Text: o.GetText(),
		RetryAfter: time.Duration(o.GetRetryAfterMs()) * time.Millisecond}
}
