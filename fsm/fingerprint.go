package fsm

import (
	"crypto/sha256"

	"github.com/rotasched/rota"
)

const (
	// fingerprintSize is the bytes of a fingerprint.
	fingerprintSize = 8
	// fingerprintText bounds the bytes of an error that its fingerprint depends on.
	fingerprintText = 256
	// hexRun is the length from which a run of hexadecimal digits is taken for an id.
	hexRun = 8
)

// fingerprint groups dead jobs that failed alike (SPEC §20.5): the type, the reason and the
// error without the ids and numbers in it.
func fingerprint(typ rota.JobType, why rota.Reason, text string) string {
	b := append(append([]byte(typ), 0), why.String()...)
	sum := sha256.Sum256(appendAlike(append(b, 0), text))
	return string(sum[:fingerprintSize])
}

// appendAlike appends an error in small letters, its ids and numbers as one # each.
func appendAlike(b []byte, text string) []byte {
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
