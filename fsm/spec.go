package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/zeebo/xxh3"
)

// keptSpec is a job's spec as rows hold it: what every job says for itself, and all
// else, which most jobs leave out or say as others do, behind a pointer that many share. A
// whole rota.JobSpec was more than the payload of most jobs. It never changes, nor does
// what it shares.
type keptSpec struct {
	ID      rota.JobID
	Payload rota.Blob
	// JobSpec has the other fields; those above are empty in it.
	*rota.JobSpec
}

// specs keeps specs. What they say beside id and payload stands in shared, where a later
// one may find that it says the same; one that does not takes its place. It shows nowhere but
// in the memory that rows take.
type specs struct {
	shared [specsShared]*rota.JobSpec
	// last is what was found last: most say the same as the one before.
	last *rota.JobSpec
	// room is for the submission at hand, enc for hashing one that is read.
	room rota.JobSpec
	enc  encoder
}

func (k *specs) encoder() *encoder {
	if k == nil {
		return &encoder{}
	}
	return &k.enc
}

// specsShared is how many different ones can be found again: jobs of so many tenants and
// types come in any order.
const specsShared = 1 << 10

// read is specWords into room that the next one takes again.
func (k *specs) read(p *fsmpb.JobSpec) *rota.JobSpec {
	entry.ReadSpec(&k.room, p)
	return &k.room
}

// keep gives a spec the form that rows hold. Slices and maps are shared with s.
func (k *specs) keep(s *rota.JobSpec) *keptSpec {
	kept := &keptSpec{ID: s.ID, Payload: s.Payload}
	if k == nil {
		kept.JobSpec = restOf(s)
		return kept
	}
	if k.last == nil || !saysAlike(s, k.last) {
		at := &k.shared[place(s)]
		if *at == nil || !saysAlike(s, *at) {
			*at = restOf(s)
		}
		k.last = *at
	}
	kept.JobSpec = k.last
	return kept
}

// content is the hash of all that a submitter says of a job (SPEC §16.5).
func (k *specs) content(s *rota.JobSpec) rota.Digest {
	return hashSpec(k.encoder(), &keptSpec{ID: s.ID, Payload: s.Payload, JobSpec: s})
}

// ContentOf returns the hash by which a submission is known again, as Ended has it.
func ContentOf(p *fsmpb.JobSpec) rota.Digest {
	var k specs
	return k.content(entry.SpecWords(p))
}

func restOf(s *rota.JobSpec) *rota.JobSpec {
	rest := *s
	rest.ID, rest.Payload, rest.Minted = "", nil, false
	return &rest
}

// place is where a spec looks for one that says the same.
func place(s *rota.JobSpec) uint64 {
	h := xxh3.HashString(string(s.Tenant))
	for _, v := range [...]uint64{xxh3.HashString(string(s.Type)), xxh3.HashString(string(s.Queue)), uint64(s.Priority),
		uint64(s.Fee), uint64(s.CPUMilli), uint64(s.MemoryBytes), uint64(s.IOBytesPerS), uint64(s.Units)} {
		h = (h ^ v) * 0x9e3779b97f4a7c15
	}
	return h >> 54 % specsShared
}

// words is the inverse of keep.
func (s *keptSpec) words() rota.JobSpec {
	w := *s.JobSpec
	w.ID, w.Payload = s.ID, s.Payload
	return w
}
