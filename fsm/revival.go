package fsm

import (
	"unicode/utf8"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// PastOp is what a terminal job has behind it, for the entry that revives it (SPEC §16.6).
func PastOp(job *rota.Job) *fsmpb.Past {
	var e encoder
	encodeAttempts(&e, job.Attempts)
	return &fsmpb.Past{Attempts: e.b}
}

// revival checks what an entry brings for a terminal job. The spec must be the one that
// was submitted; a record is never asked, as nodes differ in what they have flushed.
func revival(t *tombRow, p *fsmpb.JobSpec, past *fsmpb.Past) (*rota.JobSpec, []rota.Attempt, error) {
	if p == nil {
		return nil, nil, rota.Refusef(rota.KindOutOfRange, "job", "the payload of job %s was dropped by retention: submit it again "+
			"under a new id", t.id)
	}
	if n := len(p.GetLabels()); n > rota.MaxLabels { // before a map is made of them
		return nil, nil, rota.Refusef(rota.KindInvalid, "labels", "labels are %d: at most %d are taken", n, rota.MaxLabels)
	}
	spec := entry.SpecWords(p)
	if spec.ID != t.id || spec.Queue != t.queue || spec.Type != t.typ || spec.Tenant != t.tenant {
		return nil, nil, rota.Refusef(rota.KindInvalid, "spec", "the payload given for job %s (queue %s, type %s, tenant %s) is that of "+
			"job %q (queue %q, type %q, tenant %q)", t.id, t.queue, t.typ, t.tenant, spec.ID, spec.Queue, spec.Type, spec.Tenant)
	}
	if err := spec.CheckShape(rota.MaxPayloadBytes); err != nil {
		return nil, nil, err
	}
	was, err := readPast(t, past)
	return spec, was, err
}

// readPast checks what an entry says of a job's past as far as the state must be able to
// hold it.
func readPast(t *tombRow, p *fsmpb.Past) ([]rota.Attempt, error) {
	if len(p.GetAttempts()) == 0 {
		return nil, nil
	}
	d := &decoder{b: p.GetAttempts()}
	attempts := decodeAttempts(d)
	sound := d.done() == nil
	for i := range attempts {
		a := &attempts[i]
		sound = sound && a.Life >= 0 && a.Life <= t.life && rota.ValidID(string(a.Worker)) && a.Ended.Clock <= t.finished.Clock &&
			len(a.Error) <= limits.MaxErrorBytes && utf8.ValidString(a.Error) && len(a.Decision.Seed) <= len(rota.LeaseID{})
	}
	if !sound {
		return nil, rota.Refusef(rota.KindInvalid, "past", "the attempts given for job %s are none that it can have had", t.id)
	}
	return attempts, nil
}
