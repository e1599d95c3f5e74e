package joblog

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// Log is the kept part of a log: whole lines, each with its newline.
type Log struct {
	Head, Tail []byte
	// CutLines and CutBytes were between them.
	CutLines, CutBytes uint64
}

// mostCut bounds what a log counts: no sum of it overflows.
const mostCut = 1 << 56

// The fields of rota.v1.AttemptLog.
const (
	fieldHead protowire.Number = iota + 1
	fieldTail
	fieldCutLines
	fieldCutBytes
)

// Append appends the encoding, that of rota.v1.AttemptLog.
func (l *Log) Append(b []byte) []byte {
	for _, part := range []struct {
		field protowire.Number
		text  []byte
	}{{fieldHead, l.Head}, {fieldTail, l.Tail}} {
		if len(part.text) > 0 {
			b = protowire.AppendBytes(protowire.AppendTag(b, part.field, protowire.BytesType), part.text)
		}
	}
	for _, part := range []struct {
		field protowire.Number
		n     uint64
	}{{fieldCutLines, l.CutLines}, {fieldCutBytes, l.CutBytes}} {
		if part.n > 0 {
			b = protowire.AppendVarint(protowire.AppendTag(b, part.field, protowire.VarintType), part.n)
		}
	}
	return b
}

// Decode reads what Append wrote. The error for bytes that are too long or not a log is Invalid(log). The log shares
// the bytes.
func Decode(b []byte) (l Log, err error) {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 || field > protowire.MaxValidNumber {
			return l, errNoLog
		}
		b = b[n:]
		switch {
		case kind == protowire.BytesType && (field == fieldHead || field == fieldTail):
			var text []byte
			if text, n = protowire.ConsumeBytes(b); field == fieldHead {
				l.Head = text
			} else {
				l.Tail = text
			}
		case kind == protowire.VarintType && field == fieldCutLines:
			l.CutLines, n = protowire.ConsumeVarint(b)
		case kind == protowire.VarintType && field == fieldCutBytes:
			l.CutBytes, n = protowire.ConsumeVarint(b)
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return l, errNoLog
		}
		b = b[n:]
	}
	err = l.check()
	return l, err
}

var errNoLog = rota.Refusef(rota.KindInvalid, "log", "log: want an AttemptLog")

func (l *Log) check() error {
	switch {
	case len(l.Head) > limits.MaxLogHead:
		return rota.Refusef(rota.KindInvalid, "log", "the log's head too long: got %d bytes, maximum %d", len(l.Head),
			limits.MaxLogHead)
	case len(l.Tail) > limits.MaxLogTail:
		return rota.Refusef(rota.KindInvalid, "log", "the log's tail too long: got %d bytes, maximum %d", len(l.Tail),
			limits.MaxLogTail)
	case l.CutLines > l.CutBytes || l.CutBytes > mostCut || l.CutBytes > 0 && l.CutLines == 0:
		return rota.Refusef(rota.KindInvalid, "log", "log: got a cut of %d lines of %d bytes", l.CutLines, l.CutBytes)
	}
	if err := checkLines(l.Head); err != nil {
		return err
	}
	return checkLines(l.Tail)
}

// checkLines refuses a line that is longer than one may be, or has no end.
func checkLines(text []byte) error {
	for len(text) > 0 {
		n := bytes.IndexByte(text, '\n') + 1
		if n == 0 || n > limits.MaxLogLine {
			return rota.Refusef(rota.KindInvalid, "log", "a line of the log is longer than %d bytes, or has no newline",
				limits.MaxLogLine)
		}
		text = text[n:]
	}
	return nil
}

// Parts returns the log in its parts: the head and, after the cut lines, the tail.
func (l *Log) Parts() (parts []rota.LogPart) {
	if len(l.Head) > 0 {
		parts = append(parts, rota.LogPart{Text: l.Head})
	}
	if len(l.Tail) > 0 {
		parts = append(parts, rota.LogPart{At: uint64(len(l.Head)) + l.CutBytes, CutLines: l.CutLines, Text: l.Tail})
	}
	return parts
}

// Since returns the kept lines from a place on.
func (l *Log) Since(at uint64) (parts []rota.LogPart) {
	for _, p := range l.Parts() {
		if p.End() <= at {
			continue
		}
		if at > p.At {
			p.Text, p.At = p.Text[at-p.At:], at
		}
		parts = append(parts, p)
	}
	return parts
}

// CheckPart refuses a part that no log can have.
func CheckPart(p *rota.LogPart) error {
	if len(p.Text) > limits.MaxLogHead+limits.MaxLogTail || p.At > mostCut || p.CutLines > p.At {
		return rota.Refusef(rota.KindInvalid, "log",
			"log: got a part of %d bytes at %d, after %d cut lines, maximum %d bytes",
			len(p.Text), p.At, p.CutLines, limits.MaxLogHead+limits.MaxLogTail)
	}
	return checkLines(p.Text)
}
