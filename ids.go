package rota

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rotasched/rota/internal/millis"
)

// Ids are distinct types so that none can be passed for another. All textual
// ids match [A-Za-z0-9._:-]{1,64} (SPEC §4.2); CheckID enforces it.
type (
	// JobID names a job, unique in a cluster.
	JobID string
	// WorkerID names a worker, unique in a cluster.
	WorkerID string
	// QueueName names a queue.
	QueueName string
	// TenantID names a tenant; the empty tenant is stored as DefaultTenant.
	TenantID string
	// JobType names the handler of a job.
	JobType string
	// NodeID names a node.
	NodeID string
	// ClusterID names a cluster, chosen by its first leader.
	ClusterID string
)

// DefaultTenant and DefaultQueue are used if a submission names none.
const (
	DefaultTenant TenantID  = "default"
	DefaultQueue  QueueName = "default"
)

// Clock is a moment on the cluster clock in milliseconds (SPEC §3.1).
type Clock int64

// Date is a moment in Unix milliseconds (SPEC §3.8).
type Date int64

// Session numbers a worker's registrations; 0 means that there is no session (SPEC §6.4).
type Session uint64

// Index is a position in the replicated log.
type Index uint64

// LeaseID is H("AICF|lease", job, worker, attempt, seed), shown as lowercase
// hex (SPEC §7.1).
type LeaseID [32]byte

// IsZero reports whether there is no lease.
func (id LeaseID) IsZero() bool { return id == LeaseID{} }

// String shows the id as 64 lowercase hex digits, "" for none.
func (id LeaseID) String() string {
	if id.IsZero() {
		return ""
	}
	return hex.EncodeToString(id[:])
}

// MarshalText implements encoding.TextMarshaler.
func (id LeaseID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *LeaseID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*id = LeaseID{}
		return nil
	}
	if len(text) != 2*len(id) {
		return fmt.Errorf("lease id: got %d characters, want 64 hex digits", len(text))
	}
	_, err := hex.Decode(id[:], text)
	return err
}

// Token is the fencing token of an attempt: it only grows over the life of a cluster, including restores (SPEC §8.6).
// It is ordered by incarnation, then counter.
type Token struct {
	Incarnation uint64
	Counter     uint64
}

// Compare orders tokens by age: it returns a negative number if t is older than u, zero
// if they are the same, and a positive one if t is younger.
func (t Token) Compare(u Token) int {
	return cmp.Or(cmp.Compare(t.Incarnation, u.Incarnation), cmp.Compare(t.Counter, u.Counter))
}

// IsZero reports whether there is no token.
func (t Token) IsZero() bool { return t == Token{} }

// String shows "incarnation.counter", "" for none.
func (t Token) String() string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatUint(t.Incarnation, 10) + "." + strconv.FormatUint(t.Counter, 10)
}

// MarshalText implements encoding.TextMarshaler.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Token) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*t = Token{}
		return nil
	}
	a, b, ok := strings.Cut(string(text), ".")
	if !ok {
		return fmt.Errorf("token: got %q; use INCARNATION.COUNTER, such as 1.42", shorten(string(text)))
	}
	var err error
	if t.Incarnation, err = strconv.ParseUint(a, 10, 64); err != nil {
		return fmt.Errorf("token incarnation: %w", err)
	}
	if t.Counter, err = strconv.ParseUint(b, 10, 64); err != nil {
		return fmt.Errorf("token counter: %w", err)
	}
	return nil
}

// Digest is 128 bits of the state's multiset hash (SPEC §2.5), or none.
type Digest struct{ Hi, Lo uint64 }

// String shows 32 lowercase hex digits.
func (d Digest) String() string { return fmt.Sprintf("%016x%016x", d.Hi, d.Lo) }

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) != 32 {
		return fmt.Errorf("digest: got %d characters, want 32 hex digits", len(text))
	}
	var err error
	if d.Hi, err = strconv.ParseUint(string(text[:16]), 16, 64); err != nil {
		return fmt.Errorf("digest: %w", err)
	}
	d.Lo, err = strconv.ParseUint(string(text[16:]), 16, 64)
	return err
}

// ValidID reports whether s matches [A-Za-z0-9._:-]{1,64} (SPEC §4.2).
func ValidID[S ~string](s S) bool {
	if len(s) == 0 || len(s) > MaxIDBytes {
		return false
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case c == '.' || c == '_' || c == ':' || c == '-':
		default:
			return false
		}
	}
	return true
}

// CheckID rejects an id that ValidID does not accept; the error names the field.
func CheckID[S ~string](field string, s S) error {
	if ValidID(s) {
		return nil
	}
	return Refusef(KindInvalid, field, "%s: got %q; use 1 to %d of the characters A-Z a-z 0-9 . _ : -", field,
		shorten(string(s)),
		MaxIDBytes)
}

// CheckNodeID rejects a node's id that is not 1 to MaxNodeIDBytes of UTF-8 without blanks and control characters. Only
// the edge uses it: which characters are printable depends on Unicode tables, which differ between binaries (SPEC
// §2.2).
func CheckNodeID(field, s string) error {
	ok := true
	for _, r := range s {
		ok = ok && unicode.IsGraphic(r) && !unicode.IsSpace(r)
	}
	if !ok {
		return badNodeID(field, s)
	}
	return CheckNodeIDBytes(field, s)
}

// CheckNodeIDBytes is the part of CheckNodeID that needs no Unicode tables and is the same in every binary: 1 to
// MaxNodeIDBytes of UTF-8, without ASCII blanks or control characters. The machine checks only this part.
func CheckNodeIDBytes(field, s string) error {
	ok := len(s) > 0 && len(s) <= MaxNodeIDBytes && utf8.ValidString(s)
	for i := 0; i < len(s); i++ {
		ok = ok && s[i] > ' ' && s[i] != 0x7f
	}
	if !ok {
		return badNodeID(field, s)
	}
	return nil
}

func badNodeID(field, s string) error {
	return Refusef(KindInvalid, field, "%s: got %q; use 1 to %d bytes of printable UTF-8 without blanks", field,
		shorten(s),
		MaxNodeIDBytes)
}

// CheckJobRef rejects an id that is neither that of a submitted job nor of a workflow's node nor of a schedule's run;
// the error names the field.
func CheckJobRef(field string, id JobID) error {
	w, node, ok := SplitNodeJobID(id)
	if name, run := SplitRunID(id); run && !ok {
		if err := name.Check(field); err != nil {
			return err
		}
		return CheckID(field, strings.TrimPrefix(string(id[len(name)+1:]), "+"))
	}
	if !ok {
		return CheckID(field, id)
	}
	if err := CheckID(field, w); err != nil {
		return err
	}
	return CheckNodeID(field, node)
}

// shownBytes is the longest value that Difference shows.
const shownBytes = 64

// Difference returns the JSON name of the first field in which the contents of two job specs differ (SPEC §16.5), with
// both values if they are short; "" if they are equal. Empty lists, maps and payloads equal missing ones; headers are
// not part of the content.
func (s *JobSpec) Difference(other *JobSpec) string { return difference("", *s, *other) }

// Difference returns the first field in which two batch specs differ.
func (s *BatchSpec) Difference(other *BatchSpec) string { return difference("", *s, *other) }

// Difference returns the first field in which two plans differ.
func (p *PlanSpec) Difference(other *PlanSpec) string { return difference("", *p, *other) }

// Difference returns the first field, other than nodes and edges, in which two workflows differ.
func (w *WorkflowSpec) Difference(other *WorkflowSpec) string {
	a, b := *w, *other
	a.Nodes, a.Edges, b.Nodes, b.Edges = nil, nil, nil, nil
	return difference("", a, b)
}

// difference compares two specs of one type; in is the prefix of their field names.
func difference(in string, now, before any) string {
	a, b := reflect.ValueOf(now), reflect.ValueOf(before)
	for i := range a.NumField() {
		name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
		if name == "-" || name == "headers" {
			continue
		}
		name = in + name
		if job, is := a.Field(i).Interface().(JobSpec); is {
			if how := difference(name+".", job, b.Field(i).Interface()); how != "" {
				return how
			}
			continue
		}
		if alike(a.Field(i), b.Field(i)) {
			continue
		}
		was, is := shown(b.Field(i)), shown(a.Field(i))
		if _, blob := a.Field(i).Interface().(Blob); blob || len(was)+len(is) > shownBytes {
			return "its " + name + " was another"
		}
		return fmt.Sprintf("its %s was %q, not %q", name, was, is)
	}
	return ""
}

// shown returns a field as JSON text.
func shown(v reflect.Value) string {
	switch v := v.Interface().(type) {
	case time.Duration:
		return fmt.Sprint(millis.Of(v))
	case time.Time:
		return DateOf(v).String()
	case *Unique:
		text, _ := json.Marshal(v) // cannot fail
		return string(text)
	case *int32:
		if v == nil {
			return ""
		}
		return fmt.Sprint(*v)
	default:
		return fmt.Sprint(v)
	}
}

func alike(a, b reflect.Value) bool {
	if t, is := a.Interface().(time.Time); is {
		return t.Equal(b.Interface().(time.Time))
	}
	if u, is := a.Interface().(*Unique); is {
		return u.Equal(b.Interface().(*Unique))
	}
	if p, is := a.Interface().(*int32); is {
		q := b.Interface().(*int32)
		return p == q || p != nil && q != nil && *p == *q
	}
	switch a.Kind() {
	case reflect.Slice, reflect.Map:
		if a.Len() == 0 || b.Len() == 0 {
			return a.Len() == b.Len()
		}
		if a.Type().Elem().Kind() == reflect.Uint8 {
			return bytes.Equal(a.Bytes(), b.Bytes())
		}
		return reflect.DeepEqual(a.Interface(), b.Interface())
	default:
		return a.Equal(b)
	}
}
