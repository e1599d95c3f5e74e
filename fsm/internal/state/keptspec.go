package state

import (
	"crypto/sha256"
	"math/bits"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/zeebo/xxh3"
)

// KeptSpec is a job's spec as stored in rows: the job's own parts, and a pointer to the rest, which most jobs leave out
// or share with others. A whole rota.JobSpec took more space than the payload of most jobs. A KeptSpec never changes,
// nor does what it shares.
type KeptSpec struct {
	ID rota.JobID
	// own is the payload, preceded by the headers in canonical form if the job has any.
	own []byte
	*SharedSpec
}

// SharedSpec holds the fields of a spec that many jobs share; its id, payload and headers are empty.
type SharedSpec struct {
	rota.JobSpec
	// headed reports whether own begins with headers.
	headed bool
	// restBytes is the length of the canonical form of the shared fields.
	restBytes int64
}

// matches reports whether a spec equals this one except for its own parts.
func (r *SharedSpec) matches(s *rota.JobSpec) bool {
	return r.headed == (len(s.Headers) > 0) && saysAlike(s, &r.JobSpec)
}

// Split returns the job's own parts: the headers in canonical form, nil for most jobs, and the payload.
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

// Payload returns the job's payload; the embedded field of the same name is empty.
func (s *KeptSpec) Payload() rota.Blob {
	_, payload := s.Split()
	return payload
}

// Headers returns the job's headers; the embedded field of the same name is empty.
func (s *KeptSpec) Headers() map[string]string {
	headers, _ := s.Split()
	if len(headers) == 0 {
		return nil
	}
	return decodePairs(&Decoder{B: headers})
}

// EncodeSpec writes a complete spec.
func EncodeSpec(e *Encoder, s *KeptSpec) {
	headers, payload := s.Split()
	EncodeParts(e, s, headers, payload)
}

// HashSpec returns the hash of a spec's content, which excludes headers (SPEC §13.16). It replaces the spec in the
// canonical form of its job's row. e belongs to the caller and is overwritten.
func HashSpec(e *Encoder, s *KeptSpec) rota.Digest {
	_, payload := s.Split()
	e.B = e.B[:0]
	EncodeParts(e, s, nil, payload)
	return HashBytes(e.B)
}

// canonicalHeaders returns headers sorted by name; nil for none.
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

// Specs stores specs. Everything except id and payload is kept in shared, where a later equal spec finds it; a
// different one replaces it. This affects only the memory that rows use.
type Specs struct {
	Shared [specsShared]saidSpec
	// last is the latest one found: most specs equal the one before.
	last *saidSpec
	// room holds the submission in progress; enc hashes a spec that is read.
	room rota.JobSpec
	Enc  Encoder
}

// saidSpec is a shared spec and its encoding, into which a job's own parts are inserted.
type saidSpec struct {
	spec *SharedSpec
	// text is without id, payload and headers; payload is the offset where the payload belongs.
	text    []byte
	payload int
	// sound reports whether a job with it passed CheckShape.
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

// specsShared is the number of different specs that can be found again: jobs of many tenants and types arrive in any
// order.
const specsShared = 1 << 10

// Read decodes a spec into a buffer that the next call reuses.
func (k *Specs) Read(p *fsmpb.JobSpec) *rota.JobSpec {
	entry.ReadSpec(&k.room, p)
	return &k.room
}

// Keep returns a spec in the form stored in rows. Slices and maps are shared with s.
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

// rest returns a spec without its own parts, shared with equal ones.
func (k *Specs) rest(s *rota.JobSpec) *SharedSpec {
	if k.last == nil || !k.last.spec.matches(s) {
		at := &k.Shared[place(s)]
		if at.spec == nil || !at.spec.matches(s) {
			at.Take(&k.Enc, s)
		}
		k.last = at
	}
	return k.last.spec
}

// Check is CheckShape for the spec kept last. It does not check again what the spec shares with one that passed.
func (k *Specs) Check(s *rota.JobSpec, payloadMax int64) error {
	if k.last.sound {
		return s.CheckOwn(payloadMax)
	}
	if err := s.CheckShape(payloadMax); err != nil {
		*k.last, k.last = saidSpec{}, nil // the shared part is dropped
		return err
	}
	k.last.sound = true
	return nil
}

// Hash is HashSpec. It does not encode again what the job shares with the one kept before it.
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

// Content returns the hash of everything that a submitter specifies about a job (SPEC §16.5).
func (k *Specs) Content(s *rota.JobSpec) rota.Digest { return specContent(&k.Enc, s) }

func specContent(e *Encoder, s *rota.JobSpec) rota.Digest {
	return HashSpec(e, &KeptSpec{ID: s.ID, own: s.Payload, SharedSpec: &SharedSpec{JobSpec: *s}})
}

// Size returns the length of a spec's canonical form in bytes.
func (k *Specs) Size(s *rota.JobSpec) int64 {
	return k.rest(s).bytesWith(s.ID, canonicalHeaders(s.Headers), s.Payload)
}

// ContentOf returns the hash that identifies a repeated submission, as stored in Ended.
func ContentOf(p *fsmpb.JobSpec) rota.Digest {
	return specContent(&Encoder{}, entry.SpecWords(p))
}

// restOf returns a spec without its own parts. It leaves its encoding in e, with an empty id, and an empty payload at
// offset payload.
func restOf(e *Encoder, s *rota.JobSpec) (rest *SharedSpec, payload int) {
	rest = &SharedSpec{JobSpec: *s, headed: len(s.Headers) > 0}
	rest.ID, rest.Payload, rest.JobSpec.Headers, rest.Minted = "", nil, nil, false
	e.B = e.B[:0]
	payload = EncodeParts(e, &KeptSpec{SharedSpec: rest}, nil, nil)
	rest.restBytes = int64(len(e.B)) - 2*textBytes(0)
	return rest, payload
}

// place returns the index at which to look for an equal spec.
func place(s *rota.JobSpec) uint64 {
	h := xxh3.HashString(string(s.Tenant))
	for _, v := range [...]uint64{xxh3.HashString(string(s.Type)), xxh3.HashString(string(s.Queue)), uint64(s.Priority),
		uint64(s.Fee), uint64(s.CPUMilli), uint64(s.MemoryBytes), uint64(s.IOBytesPerS), uint64(s.Units)} {
		h = (h ^ v) * 0x9e3779b97f4a7c15
	}
	for _, key := range s.Keys {
		h = (h ^ xxh3.HashString(key)) * 0x9e3779b97f4a7c15
	}
	for _, name := range s.Costs.Names() {
		h = (h ^ uint64(s.Costs[name])) * 0x9e3779b97f4a7c15
	}
	return h >> 54 % specsShared
}

// Words is the inverse of Keep.
func (s *KeptSpec) Words() rota.JobSpec {
	w := s.JobSpec
	w.ID, w.Payload, w.Headers = s.ID, s.Payload(), s.Headers()
	return w
}

// Bytes returns the length of a spec's canonical form without encoding it.
func (s *KeptSpec) Bytes() int64 {
	headers, payload := s.Split()
	return s.bytesWith(s.ID, headers, payload)
}

// bytesWith returns that length for a job's own parts.
func (r *SharedSpec) bytesWith(id rota.JobID, headers, payload []byte) int64 {
	n := r.restBytes + textBytes(len(id)) + textBytes(len(payload))
	if len(headers) > 0 {
		n += textBytes(len(headers))
	}
	return n
}

// textBytes returns the encoded length of a text of n bytes, including its length prefix.
func textBytes(n int) int64 { return int64(n + (bits.Len64(uint64(n)|1)+6)/7) }

const (
	// FingerprintSize is the length of a fingerprint in bytes.
	FingerprintSize = 8
	// fingerprintText is the maximum number of an error's bytes that its fingerprint depends on.
	fingerprintText = 256
	// hexRun is the minimum length of a run of hexadecimal digits that counts as an id.
	hexRun = 8
)

// Fingerprint returns the same value for dead jobs with a similar failure (SPEC §20.5): it covers the type, the reason
// and the error without its ids and numbers.
func Fingerprint(typ rota.JobType, why rota.Reason, text string) string {
	b := append(append([]byte(typ), 0), why.String()...)
	sum := sha256.Sum256(AppendAlike(append(b, 0), text))
	return string(sum[:FingerprintSize])
}

// AppendAlike appends an error in lower case, with each id and number replaced by #.
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
