package rota

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rotasched/rota/internal/jsonparts"
)

// CheckShape rejects a job whose fields are out of range (SPEC §4.2). The error names the field, the value and the
// limit. It is called at the edge and again by the state machine; payloadMax is the queue's payload_max_bytes.
func (s *JobSpec) CheckShape(payloadMax int64) error {
	if err := CheckID("id", s.ID); err != nil {
		return err
	}
	return s.CheckAgain(payloadMax)
}

// CheckOwn is CheckShape for a job that equals a valid other job except for its id, payload and headers.
func (s *JobSpec) CheckOwn(payloadMax int64) error {
	if err := CheckID("id", s.ID); err != nil {
		return err
	}
	if err := s.checkPayload(payloadMax); err != nil {
		return err
	}
	return s.CheckHeaders()
}

// CheckAgain is CheckShape for a job that runs again, whose id may be one that the cluster made.
func (s *JobSpec) CheckAgain(payloadMax int64) error {
	if err := s.Unique.check(); err != nil {
		return err
	}
	if s.Batch != "" {
		if err := s.Batch.Check("batch"); err != nil {
			return err
		}
	}
	return s.checkTemplate(payloadMax)
}

// CheckTemplate checks a node of a workflow, which has no id of its own.
func (s *JobSpec) CheckTemplate(payloadMax int64) error {
	if s.Unique != nil {
		return Refusef(KindInvalid, "unique", "unique is only allowed for single jobs: omit it from nodes of workflows")
	}
	if s.Batch != "" {
		return Refusef(KindInvalid, "batch",
			"batch is only allowed for single jobs: omit %.80q from nodes, runs and callbacks", s.Batch)
	}
	return s.checkTemplate(payloadMax)
}

func (s *JobSpec) checkTemplate(payloadMax int64) error {
	ids := []struct {
		field, id string
		needed    bool
	}{
		{"queue", string(s.Queue), true}, {"type", string(s.Type), true},
		{"tenant", string(s.Tenant), true}, {"zone", s.Zone, false}, {"domain", s.Domain, false},
		{"worker", string(s.Worker), false},
	}
	for _, f := range ids {
		if f.id != "" || f.needed {
			if err := CheckID(f.field, f.id); err != nil {
				return err
			}
		}
	}
	if err := s.checkPayload(payloadMax); err != nil {
		return err
	}
	if n := len(s.ExpectedDigest); n != 0 && n != 32 {
		return Refusef(KindInvalid, "expected_digest", "expected_digest: got %d bytes, want 32 or none", n)
	}
	if err := s.checkNumbers(); err != nil {
		return err
	}
	for _, l := range []struct {
		field string
		list  []string
		most  int
	}{{"requires", s.Requires, MaxLabels}, {"regions_allow", s.RegionsAllow, MaxRegions}, {"regions_deny",
		s.RegionsDeny, MaxRegions}} {
		if err := checkLabels(l.field, l.list, l.most); err != nil {
			return err
		}
	}
	if err := checkLabels("data_keys", s.DataKeys, MaxDataKeys); err != nil {
		return err
	}
	if err := checkKeys(s.Keys); err != nil {
		return err
	}
	if err := checkLimits(s.Limits); err != nil {
		return err
	}
	if err := s.Costs.Check("costs"); err != nil {
		return err
	}
	if err := s.CheckHeaders(); err != nil {
		return err
	}
	return checkLabelMap("labels", s.Labels)
}

func (s *JobSpec) checkPayload(most int64) error {
	if int64(len(s.Payload)) > most {
		// This text is frozen: a schedule whose run is refused keeps it in its row, which the state's digest covers.
		return Refusef(KindInvalid, "payload", "payload has %d bytes: at most %d (payload_max_bytes) are taken",
			len(s.Payload), most)
	}
	if s.Unique.Collects() && !jsonparts.Valid(s.Payload) {
		return Refusef(KindInvalid, "payload",
			"payload must be JSON if unique.on_conflict is %q: the payloads become one list", UniqueCollect)
	}
	return nil
}

// CheckHeaders rejects headers that are too many, too long, or not text (SPEC §13.16).
func (s *JobSpec) CheckHeaders() error {
	headers := s.Headers
	if len(headers) == 0 {
		return nil
	}
	if len(headers) > MaxHeaders {
		return TooMany("headers", len(headers), MaxHeaders)
	}
	bytes := 0
	for _, k := range slices.Sorted(maps.Keys(headers)) {
		if !validLabel(k) {
			return Refusef(KindInvalid, "headers",
				"headers: got the name %q; use 1 to %d bytes of printable ASCII without blanks",
				shorten(k), MaxLabelBytes)
		}
		if v := headers[k]; !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl) {
			return Refusef(KindInvalid, "headers",
				"headers: the value of %s must be UTF-8 without control characters; encode it", k)
		}
		bytes += len(k) + len(headers[k])
	}
	if bytes > MaxHeadersBytes {
		return Refusef(KindInvalid, "headers",
			"headers too long: got %d bytes of names and values, maximum %d; put large data into the payload",
			bytes, MaxHeadersBytes)
	}
	return nil
}

// CheckMeta rejects metadata of a completion that exceeds the limits of labels.
func CheckMeta(meta map[string]string) error { return checkLabelMap("meta", meta) }

// checkLabelMap rejects label maps with too many or too long entries.
func checkLabelMap(field string, labels map[string]string) error {
	if len(labels) > MaxLabels {
		return TooMany(field, len(labels), MaxLabels)
	}
	if len(labels) == 0 {
		return nil // without the list of its keys, which allocates
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		v := labels[k]
		if !validLabel(k) || len(v) > MaxLabelBytes || !utf8.ValidString(v) {
			return Refusef(KindInvalid, field,
				"%s: use keys of 1 to %d bytes of printable ASCII without blanks, and values of at most %d bytes of UTF-8",
				field, MaxLabelBytes, MaxLabelBytes)
		}
	}
	return nil
}

func (s *JobSpec) checkNumbers() error {
	for _, n := range []struct {
		field    string
		value    int64
		min, max int64
	}{
		{"priority", int64(s.Priority), 0, MaxPriority},
		{"fee", s.Fee, 0, MaxFee},
		{"size_bytes", s.SizeBytes, 0, MaxSizeBytes},
		{"delay_ms", s.Delay.Milliseconds(), 0, maxMs},
		{"not_before_ms", int64(DateOf(s.NotBefore)), 0, 1 << 46},
		{"ttl_ms", s.TTL.Milliseconds(), 0, maxMs},
		{"start_by_ms", s.StartBy.Milliseconds(), 0, maxMs},
		{"max_runtime_ms", s.MaxRuntime.Milliseconds(), 0, maxMs},
		{"cpu_milli", s.CPUMilli, 0, MaxCPUMilli},
		{"memory_bytes", s.MemoryBytes, 0, MaxMemoryBytes},
		{"io_bytes_per_s", s.IOBytesPerS, 0, MaxIOBytesPerS},
		{"simulate_ms", s.Simulate.Milliseconds(), 0, maxMs},
		{"units", s.Units, 0, MaxUnits},
		{"expected_ms", s.Expected.Milliseconds(), 0, maxMs},
	} {
		if n.value < n.min || n.value > n.max {
			return OutOfRange(n.field, n.value, n.min, n.max)
		}
	}
	if s.StartBy != 0 && s.StartBy <= s.Delay {
		return Refusef(KindInvalid, "start_by_ms",
			"start_by_ms must be more than delay_ms (%d), got %d; both count from the submission",
			s.Delay.Milliseconds(), s.StartBy.Milliseconds())
	}
	if r := &s.Retry; *r != (RetryPolicy{}) {
		for _, n := range []struct {
			field           string
			value, min, max int64
		}{
			{"retry.attempts", r.Attempts, 1, MaxAttempts},
			{"retry.base_ms", r.Base.Milliseconds(), 1, maxMs},
			{"retry.factor_permille", r.FactorPermille, 1_000, 1_000_000},
			{"retry.cap_ms", r.Cap.Milliseconds(), 1, maxMs},
			{"retry.jitter_permille", r.JitterPermille, -1, 1_000},
		} {
			if n.value != 0 && (n.value < n.min || n.value > n.max) {
				refusal := OutOfRange(n.field, n.value, n.min, n.max)
				refusal.Text += "; 0 uses the queue's value"
				return refusal
			}
		}
	}
	return checkRuntime(s.MaxRuntime.Milliseconds())
}

// quoted shows a number that was sent. A duration beyond what a time.Duration holds was cut to its limit.
func quoted(field string, n int64) string {
	const held = int64(math.MaxInt64 / time.Millisecond)
	text := strconv.FormatInt(n, 10)
	switch {
	case !strings.HasSuffix(field, "_ms") || n > -held && n < held:
		return text
	case n > 0:
		return text + " or more"
	default:
		return text + " or less"
	}
}

// checkRuntime rejects a max_runtime, of a job or of a queue, that leaves no time to work.
func checkRuntime(ms int64) error {
	if ms > 0 && ms < int64(MaxRuntimeLeast) {
		return Refusef(KindInvalid, "max_runtime_ms", "max_runtime_ms must be 0 (no limit) or at least %d, got %d; "+
			"workers stop a second before it", MaxRuntimeLeast, ms)
	}
	return nil
}

// CheckShape rejects a worker whose fields are out of range.
func (w *WorkerSpec) CheckShape() error {
	if err := CheckID("id", w.ID); err != nil {
		return err
	}
	if len(w.Queues) == 0 || len(w.Queues) > MaxQueuesPerWorker {
		return Refusef(KindInvalid, "queues", "queues: got %d, want 1 to %d", len(w.Queues), MaxQueuesPerWorker)
	}
	for i, q := range w.Queues {
		if err := CheckID(fmt.Sprintf("queues[%d]", i), q); err != nil {
			return err
		}
	}
	if len(w.Types) > MaxTypesHandled {
		return Refusef(KindInvalid, "types",
			"too many types: got %d, maximum %d; a worker without types handles every type", len(w.Types),
			MaxTypesHandled)
	}
	for i, typ := range w.Types {
		if err := CheckID(fmt.Sprintf("types[%d]", i), typ); err != nil {
			return err
		}
	}
	for _, f := range []struct{ field, id string }{{"region", w.Region}, {"zone", w.Zone}} {
		if f.id != "" {
			if err := CheckID(f.field, f.id); err != nil {
				return err
			}
		}
	}
	for _, n := range []struct {
		field    string
		value    int64
		min, max int64
	}{
		{"slots", int64(w.Slots), 1, MaxSlots},
		{"prefetch", int64(w.Prefetch), 0, MaxPrefetch},
		{"cpu_milli", w.CPUMilli, 0, MaxCPUMilli},
		{"memory_bytes", w.MemoryBytes, 0, MaxMemoryBytes},
		{"io_bytes_per_s", w.IOBytesPerS, 0, MaxIOBytesPerS},
		{"stake", w.Stake, 0, MaxFee},
	} {
		if n.value < n.min || n.value > n.max {
			return OutOfRange(n.field, n.value, n.min, n.max)
		}
	}
	if err := checkLimits(w.Limits); err != nil {
		return err
	}
	return checkLabels("capabilities", w.Capabilities, MaxLabels)
}

func checkLimits(limits map[string]int64) error {
	if len(limits) > MaxLimits {
		return TooMany("limits", len(limits), MaxLimits)
	}
	if len(limits) == 0 {
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(limits)) {
		if !validLabel(k) {
			return Refusef(KindInvalid, "limits",
				"limits: a name must be 1 to %d bytes of printable ASCII without blanks", MaxLabelBytes)
		}
		if v := limits[k]; v < 0 || v > MaxFee {
			return Refusef(KindInvalid, "limits", "limits: %s must be between 0 and %d, got %d", k, int64(MaxFee), v)
		}
	}
	return nil
}

func checkLabels(field string, list []string, most int) error {
	if len(list) > most {
		return TooMany(field, len(list), most)
	}
	for i, l := range list {
		if !validLabel(l) {
			return Refusef(KindInvalid, field, "%s[%d] must be 1 to %d bytes of printable ASCII without blanks", field,
				i, MaxLabelBytes)
		}
	}
	return nil
}

// validLabel accepts printable ASCII without blanks, such as "gpu=a100".
func validLabel(s string) bool {
	if len(s) == 0 || len(s) > MaxLabelBytes {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
