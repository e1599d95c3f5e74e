package fsm

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/fsm/internal/unique"
	"github.com/rotasched/rota/internal/millis"
)

// modelKeys is the naive model of SPEC §18: full keys instead of hashes, in a plain map.
type modelKeys struct {
	held   map[string]modelHeld
	merged map[rota.JobID]rota.JobSpec
	// before is the key that each job held before the entry; freed are the keys that it freed.
	before map[rota.JobID]bool
	freed  map[string]bool
}

type modelHeld struct {
	job   rota.JobID
	until rota.Clock // of a completed job
}

func newModelKeys() modelKeys {
	return modelKeys{held: map[string]modelHeld{}, merged: map[rota.JobID]rota.JobSpec{}, freed: map[string]bool{}}
}

// keyOf writes out the key by which a job is unique, "" for none.
func keyOf(s *rota.JobSpec, now rota.Clock) string {
	u := s.Unique
	if u == nil {
		return ""
	}
	at := max(int64(now)+s.Delay.Milliseconds(), int64(rota.DateOf(s.NotBefore)))
	key := "key " + u.Key
	for _, part := range []struct{ name, is string }{{"queue", string(s.Queue)}, {"type", string(s.Type)},
		{"args", string(s.Payload)}} {
		for _, by := range u.By {
			if by == part.name {
				key += fmt.Sprintf(" %s %q", by, part.is)
			}
		}
	}
	if u.Period > 0 {
		key += fmt.Sprint(" in ", at/u.Period.Milliseconds())
	}
	return fmt.Sprint(s.Tenant, " ", key)
}

// inScope reports whether the job's state is one in which it holds its key.
func (j *modelJob) inScope() bool {
	if j == nil || j.key == "" {
		return false
	}
	scope := j.first.Unique.Scope
	if len(scope) == 0 {
		scope = []string{"PENDING", "RUNNING"}
	}
	for _, s := range scope {
		switch {
		case s == "PENDING" && (j.state == rota.JobQueued || j.state == rota.JobDelayed),
			s == "RUNNING" && (j.state == rota.JobAssigned || j.state == rota.JobRunning),
			s == "COMPLETED" && j.state == rota.JobCompleted:
			return true
		}
	}
	return false
}

// judge reports whether a submission with a held key must be accepted, and that the key was held.
func (m *model) judge(s *rota.JobSpec) (taken, met bool) {
	if first, ok := m.keys.merged[s.ID]; ok {
		return first.Difference(s) == "", true
	}
	h, ok := m.keys.held[keyOf(s, m.now)]
	if s.Unique == nil || !ok {
		return false, false
	}
	how := s.Unique.OnConflict
	if how == "" || how == rota.UniqueRefuse {
		return false, true
	}
	m.keys.merged[s.ID] = *s
	j := m.jobs[h.job]
	waits := j.state == rota.JobQueued || j.state == rota.JobDelayed
	if how == rota.UniqueExisting || !waits || j.first.Type != s.Type {
		return true, true
	}
	j.payload = string(s.Payload)
	if how == rota.UniqueExtend && j.state == rota.JobDelayed && j.attempt == 0 && !j.leased && j.lives == 0 {
		most := s.Unique.ExtendMax.Milliseconds()
		if most == 0 {
			most = 3_600_000
		}
		due := min(m.now+rota.Clock(j.first.Delay.Milliseconds()), j.began+rota.Clock(most))
		if j.ready != 0 {
			j.ready = max(j.ready, due)
		}
		j.due = max(j.due, due)
	}
	return true, true
}

// settle follows the keys through one entry: holds reports which jobs hold theirs in the machine. If several come back
// at once the machine chooses.
func (k *modelKeys) settle(m *model, swept bool, holds func(rota.JobID) bool) error {
	for key, h := range k.held {
		j := m.jobs[h.job]
		switch {
		case j == nil || !j.inScope() || j.key != key, swept && h.until != 0 && h.until <= m.now:
			delete(k.held, key)
			k.freed[key] = true
		case j.state == rota.JobCompleted && h.until == 0:
			k.held[key] = modelHeld{h.job, m.now + rota.Clock(j.first.Unique.Keep.Milliseconds())}
		}
	}
	waiting := map[string]bool{}
	for id, j := range m.jobs {
		if !j.inScope() || k.before[id] {
			continue
		}
		if h, ok := k.held[j.key]; ok && h.job != id {
			continue
		}
		waiting[j.key] = true
		if holds(id) {
			h := modelHeld{job: id}
			if j.state == rota.JobCompleted {
				h.until = m.now + rota.Clock(j.first.Unique.Keep.Milliseconds())
			}
			k.held[j.key] = h
		}
	}
	for key := range waiting {
		if _, ok := k.held[key]; !ok && !k.freed[key] {
			return fmt.Errorf("key %q is free, want held", key)
		}
	}
	for id := range m.jobs {
		h, ok := k.held[m.jobs[id].key]
		if is := ok && h.job == id; is != holds(id) {
			return fmt.Errorf("that job %s holds %q is %v, want %v as in the model", id, m.jobs[id].key, holds(id), is)
		}
	}
	k.before, k.freed = map[rota.JobID]bool{}, map[string]bool{}
	for id, j := range m.jobs {
		k.before[id] = j.inScope()
	}
	return nil
}

// keys compares the holders of keys after an entry.
func (r *race) keys(swept bool) {
	holders := map[rota.JobID]bool{}
	r.b.uniques.Rows.Scan(func(_ string, row *state.UniqueRow) bool {
		holders[row.Job] = true
		return true
	})
	if err := r.model.keys.settle(r.model, swept, func(id rota.JobID) bool { return holders[id] }); err != nil {
		r.Fatalf("%v", err)
	}
	if got := r.b.uniques.Rows.Len(); got != len(r.model.keys.held) {
		r.Fatalf("%d keys are held, want %d as in the model", got, len(r.model.keys.held))
	}
	if got := r.b.uniques.Merged.Len(); got != len(r.model.keys.merged) {
		r.Fatalf("%d submissions are merged, want %d as in the model", got, len(r.model.keys.merged))
	}
}

// unique draws the uniqueness of a job.
func (r *race) unique() *rota.Unique {
	u := &rota.Unique{Key: fmt.Sprint("k", r.pick("key", 2)),
		Period:     millis.Duration([]int64{0, 0, 5_000}[r.pick("period", 3)]),
		OnConflict: []string{"", "refuse", "existing", "replace", "extend"}[r.pick("conflict", 5)]}
	if r.pick("by", 3) == 0 {
		u.Key, u.By = "", [][]string{{"queue"}, {"type", "args"}, {"args", "queue", "type"}}[r.pick("parts", 3)]
	}
	u.Scope = [][]string{nil, nil, {"PENDING"}, {"RUNNING"}, {"PENDING", "RUNNING", "COMPLETED"},
		{"COMPLETED"}}[r.pick("scope", 6)]
	for _, s := range u.Scope {
		if s == "COMPLETED" {
			u.Keep = millis.Duration([]int64{1, 4_000, 90_000}[r.pick("keep", 3)])
		}
	}
	if u.OnConflict == "extend" {
		u.ExtendMax = millis.Duration([]int64{0, 900}[r.pick("most", 2)])
	}
	return u
}

// TestUniqueKeys_hash compares the key with the bytes of SPEC §18.1, written out.
func TestUniqueKeys_hash(t *testing.T) {
	t.Parallel()
	s := jobSpec("j", func(s *rota.JobSpec) {
		s.Tenant, s.Payload, s.Delay = "acme", rota.Blob("42"), millis.Duration(1_500)
		s.Unique = &rota.Unique{By: []string{"args", "type"}, Period: millis.Duration(1_000)}
	})
	args := sha256.Sum256([]byte("42"))
	var message []byte
	for _, part := range []string{"rota|unique", "acme", "\x00\x00\x00\x00\x00\x00\x00\x06", "work", string(args[:]),
		"\x00\x00\x00\x00\x00\x00\x00\x08"} {
		message = append(message, 0, 0, 0, byte(len(part)))
		message = append(message, part...)
	}
	want := sha256.Sum256(message)
	if got := unique.KeyOf(s, 7_400); string(got[:]) != string(want[:16]) { // ⌊8,900 ÷ 1,000⌋
		t.Fatalf("%x, want %x", got, want[:16])
	}
}
