package access

import "github.com/rotasched/rota"

// VersionKey is the key of a context's value that is the version, a string, that what its call
// changes must have. The call makes one operation, of those that take such a condition.
type VersionKey struct{}

// AnyVersion is the version that whatever is there has.
const AnyVersion = "*"

// maxVersionBytes bounds the version that a change may be wanted of.
const maxVersionBytes = 64

// CheckVersion refuses what is no version: the etag of something that was read, or AnyVersion.
func CheckVersion(etag string) error {
	if etag == AnyVersion {
		return nil
	}
	good := etag != "" && len(etag) <= maxVersionBytes
	for i := range len(etag) {
		c := etag[i]
		good = good && (c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z')
	}
	if !good {
		return rota.Refusef(rota.KindInvalid, "if_match", "if_match is %.80q: the etag of something that was read is wanted, or *", etag)
	}
	return nil
}

// Matches refuses a change that is wanted of another version than the one that is there; have is ""
// where nothing is, and want is "" of any.
func Matches(want, what, have string) error {
	if want == "" || want == have || want == AnyVersion && have != "" {
		return nil
	}
	if have == "" {
		return rota.Refusef(rota.KindConflict, "version", "%s is not there, and version %.80q of it was wanted: create it without a condition (If-Match), "+
			"or leave it", what, want)
	}
	return rota.Refusef(rota.KindConflict, "version", "%s is of version %s, and %.80q was wanted: somebody has changed it since; read it again, decide on "+
		"what it says now, and send that with its version", what, have, want)
}
