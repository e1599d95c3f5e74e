package state

import (
	"crypto/sha256"
	"math/bits"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/zeebo/xxh3"
)

// KeptSpec is a job's spec as rows hold it: what every job says for itself, and all
// else, which most jobs leave out or say as others do, behind a pointer that many share. A
// whole rota.JobSpec was more than the payload of most jobs. It never changes, nor does
// what it shares.
type KeptSpec struct {
	ID rota.JobID
	// own is the payload; behind the headers, in their canonical form, where the job has some.
	own []byte
	*SharedSpec
}

// SharedSpec has the fields of a spec that many jobs share; id, payload and headers are empty in it.
type SharedSpec struct {
	rota.JobSpec
	// headed says that own begins with headers.
	headed bool
	// restBytes counts the bytes of their canonical form.
	restBytes int64
}

// says reports whether a spec says the same beside its own parts.
func (r *SharedSpec) says(s *rota.JobSpec) bool {
	return r.headed == (len(s.Headers) > 0) && saysAlike(s, &r.JobSpec)
}

// Split returns the job's own parts: the headers in canonical form, none for most, and the payload.
func (s *KeptSpec) Split() (headers, payload []byte) {
	if !s.headed {
		return nil, s.own
	}
	d := Decoder{B: s.own}
	headers = d.raw(d.Uint())
	if len(d.B) == 0 {
		return headers, nil
	}
	return headers, d.B
}

// Payload is the job's; the field that it hides is empty.
func (s *KeptSpec) Payload() rota.Blob {
	_, payload := s.Split()
	return payload
}

// Headers are the job's; the field that it hides is empty.
func (s *KeptSpec) Headers() map[string]string {
	headers, _ := s.Split()
	if len(headers) == 0 {
		return nil
	}
	return decodePairs(&Decoder{B: headers})
}

// EncodeSpec writes all of a spec.
func EncodeSpec(e *Encoder, s *KeptSpec) {
	headers, payload := s.Split()
	EncodeParts(e, s, headers, payload)
}

// HashSpec is the hash of a spec's content, which headers are no part of (SPEC §13.16); it stands for
// the spec in its job's row. e is the caller's, to write over.
func HashSpec(e *Encoder, s *KeptSpec) rota.Digest {
	_, payload := s.Split()
	e.B = e.B[:0]
	EncodeParts(e, s, nil, payload)
	return HashBytes(e.B)
}

// canonicalHeaders are headers sorted by name; nil for none.
func canonicalHeaders(headers map[string]string) []byte {
	if len(headers) == 0 {
		return nil
	}
	var e Encoder
	encodePairs(&e, headers)
	return e.B
}

// decodeHeaders reads what canonicalHeaders wrote: at least one, in order.
func decodeHeaders(d *Decoder) map[string]string {
	b := d.raw(d.Uint())
	inner := Decoder{B: b}
	headers := decodePairs(&inner)
	if inner.Done() != nil || len(headers) == 0 || string(canonicalHeaders(headers)) != string(b) {
		d.Fail()
		return nil
	}
	return headers
}

// Specs keeps specs. What they say beside id and payload stands in shared, where a later
// one may find that it says the same; one that does not takes its place. It shows nowhere but
// in the memory that rows take.
type Specs struct {
	Shared [specsShared]saidSpec
	// last is what was found last: most say the same as the one before.
	last *saidSpec
	// room is for the submission at hand, enc for hashing one that is read.
	room rota.JobSpec
	Enc  Encoder
}

// saidSpec is a shared spec, and its encoding to be put around a job's own parts.
type saidSpec struct {
	spec *SharedSpec
	// text has no id, no payload and no headers; payload is where that belongs.
	text    []byte
	payload int
	// sound says that a job of it passed CheckShape.
	sound bool
}

func (r *saidSpec) Take(e *Encoder, s *rota.JobSpec) {
	spec, payload := restOf(e, s)
	r.spec, r.sound, r.payload = spec, false, payload-1 // an empty text is one byte
	r.text = append(append(r.text[:0], e.B[1:payload]...), e.B[payload+1:]...)
}

func (k *Specs) encoder() *Encoder {
	if k == nil {
		return &Encoder{}
	}
	return &k.Enc
}

// specsShared is how many different ones can be found again: jobs of so many tenants and
// types come in any order.
const specsShared = 1 << 10

// Read is specWords into room that the next one takes again.
func (k *Specs) Read(p *fsmpb.JobSpec) *rota.JobSpec {
	entry.ReadSpec(&k.room, p)
	return &k.room
}

// Keep returns a spec in the form that rows hold. Slices and maps are shared with s.
func (k *Specs) Keep(s *rota.JobSpec) *KeptSpec {
	kept := &KeptSpec{ID: s.ID, own: s.Payload}
	if headers := canonicalHeaders(s.Headers); headers != nil {
		e := Encoder{B: make([]byte, 0, int(textBytes(len(headers)))+len(s.Payload))}
		e.bytes(headers)
		kept.own = append(e.B, s.Payload...)
	}
	if k == nil {
		kept.SharedSpec, _ = restOf(&Encoder{}, s)
		return kept
	}
	kept.SharedSpec = k.rest(s)
	return kept
}

// rest returns what a spec says beside its own parts, shared with others that say the same.
func (k *Specs) rest(s *rota.JobSpec) *SharedSpec {
	if k.last == nil || !k.last.spec.says(s) {
		at := &k.Shared[place(s)]
		if at.spec == nil || !at.spec.says(s) {
			at.Take(&k.Enc, s)
		}
		k.last = at
	}
	return k.last.spec
}

// Check is CheckShape for the spec that was kept last, without looking anew at what it shares with one that passed.
func (k *Specs) Check(s *rota.JobSpec, payloadMax int64) error {
	if k.last.sound {
		return s.CheckOwn(payloadMax)
	}
	if err := s.CheckShape(payloadMax); err != nil {
		*k.last, k.last = saidSpec{}, nil // what it shares is held no longer
		return err
	}
	k.last.sound = true
	return nil
}

// Hash is hashSpec, without encoding anew what the job shares with the one that was kept before it.
func (k *Specs) Hash(e *Encoder, s *KeptSpec) rota.Digest {
	said := k.last
	if said == nil || said.spec != s.SharedSpec {
		return HashSpec(e, s)
	}
	_, payload := s.Split()
	e.B = e.B[:0]
	e.Str(string(s.ID))
	e.B = append(e.B, said.text[:said.payload]...)
	e.bytes(payload)
	e.B = append(e.B, said.text[said.payload:]...)
	return HashBytes(e.B)
}

// Content is the hash of all that a submitter says of a job (SPEC §16.5).
func (k *Specs) Content(s *rota.JobSpec) rota.Digest { return specContent(&k.Enc, s) }

func specContent(e *Encoder, s *rota.JobSpec) rota.Digest {
	return HashSpec(e, &KeptSpec{ID: s.ID, own: s.Payload, SharedSpec: &SharedSpec{JobSpec: *s}})
}

// Size counts the bytes of a spec's canonical form.
func (k *Specs) Size(s *rota.JobSpec) int64 {
	return k.rest(s).bytesWith(s.ID, canonicalHeaders(s.Headers), s.Payload)
}

// ContentOf returns the hash by which a submission is known again, as Ended has it.
func ContentOf(p *fsmpb.JobSpec) rota.Digest {
	return specContent(&Encoder{}, entry.SpecWords(p))
}

// restOf returns what a spec says beside its own parts. It leaves its encoding in e, with an empty id, and an empty
// payload at payload.
func restOf(e *Encoder, s *rota.JobSpec) (rest *SharedSpec, payload int) {
	rest = &SharedSpec{JobSpec: *s, headed: len(s.Headers) > 0}
	rest.ID, rest.Payload, rest.JobSpec.Headers, rest.Minted = "", nil, nil, false
	e.B = e.B[:0]
	payload = EncodeParts(e, &KeptSpec{SharedSpec: rest}, nil, nil)
	rest.restBytes = int64(len(e.B)) - 2*textBytes(0)
	return rest, payload
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

// Words is the inverse of keep.
func (s *KeptSpec) Words() rota.JobSpec {
	w := s.JobSpec
	w.ID, w.Payload, w.Headers = s.ID, s.Payload(), s.Headers()
	return w
}

// Bytes counts those of a spec's canonical form, without encoding it anew.
func (s *KeptSpec) Bytes() int64 {
	headers, payload := s.Split()
	return s.bytesWith(s.ID, headers, payload)
}

// bytesWith is what they are with a job's own parts.
func (r *SharedSpec) bytesWith(id rota.JobID, headers, payload []byte) int64 {
	n := r.restBytes + textBytes(len(id)) + textBytes(len(payload))
	if len(headers) > 0 {
		n += textBytes(len(headers))
	}
	return n
}

// textBytes counts those of a text of n bytes, with its length before it.
func textBytes(n int) int64 { return int64(n + (bits.Len64(uint64(n)|1)+6)/7) }

const (
	// FingerprintSize is the bytes of a fingerprint.
	FingerprintSize = 8
	// fingerprintText bounds the bytes of an error that its fingerprint depends on.
	fingerprintText = 256
	// hexRun is the length from which a run of hexadecimal digits is taken for an id.
	hexRun = 8
)

// Fingerprint groups dead jobs that failed alike (SPEC §20.5): the type, the reason and the
// error without the ids and numbers in it.
func Fingerprint(typ rota.JobType, why rota.Reason, text string) string {
	b := append(append([]byte(typ), 0), why.String()...)
	sum := sha256.Sum256(AppendAlike(append(b, 0), text))
	return string(sum[:FingerprintSize])
}

// AppendAlike appends an error in small letters, its ids and numbers as one # each.
func AppendAlike(b []byte, text string) []byte {
	most := len(b) + fingerprintText
	for i := 0; i < len(text) && len(b) < most; {
		n := 0
		for i+n < len(text) && isHex(lower(text[i+n])) {
			n++
		}
		switch run := text[i : i+n]; {
		case n == 0:
			b, n = append(b, lower(text[i])), 1
		case n >= hexRun:
			b = append(b, '#')
		default:
			for k := range run {
				if c := lower(run[k]); c > '9' {
					b = append(b, c)
				} else if k == 0 || lower(run[k-1]) > '9' {
					b = append(b, '#')
				}
			}
		}
		i += n
	}
	return b[:min(len(b), most)]
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
