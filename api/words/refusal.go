package words

import (
	"fmt"
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// RefusalToWire converts one item's error; nil stays nil. The cause becomes part of the text, and the delay is rounded
// up to a millisecond so that clients do not retry too early.
func RefusalToWire(e *rota.Error) *rotav1.Refusal {
	if e == nil {
		return nil
	}
	return &rotav1.Refusal{
		Kind: kinds.text(e.Kind), Op: clean(e.Op), Subject: clean(e.Subject), Text: clean(textOf(e)),
		RetryAfterMs: int64((e.RetryAfter + time.Millisecond - 1) / time.Millisecond),
	}
}

// RefusalFromWire is the inverse of RefusalToWire. A kind that this version does not know becomes Internal, because a
// client cannot act on it, and the text states that.
func RefusalFromWire(r *rotav1.Refusal) *rota.Error {
	if r == nil {
		return nil
	}
	e := &rota.Error{
		Op: r.Op, Subject: r.Subject, Text: r.Text,
		RetryAfter: time.Duration(r.RetryAfterMs) * time.Millisecond,
	}
	e.Kind, e.Text = kindFromWire(r.Kind, r.Text)
	return e
}

func kindFromWire(kind, text string) (rota.Kind, string) {
	if k, err := kinds.value(kind); err == nil && k != rota.KindNone {
		return k, text
	}
	return rota.KindInternal, fmt.Sprintf("%s (of kind %q, unknown to this version)", text, shown(kind))
}

// textOf returns the sentence with its cause, without the verb.
func textOf(e *rota.Error) string {
	if e.Cause == nil {
		return e.Text
	}
	if e.Text == "" {
		return e.Cause.Error()
	}
	return e.Text + ": " + e.Cause.Error()
}
