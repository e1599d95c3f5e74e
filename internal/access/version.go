package access

import "github.com/rotasched/rota"

// VersionKey is the context key of the version, a string, that the object of a call must have. Only calls that propose
// one operation, of a kind that supports the condition, may set it.
type VersionKey struct{}

// AnyVersion matches any version of an object that exists.
const AnyVersion = "*"

// maxVersionBytes bounds the length of a version.
const maxVersionBytes = 64

// CheckVersion rejects a text that is neither an etag nor AnyVersion.
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
		return rota.Refusef(rota.KindInvalid, "if_match",
			"if_match is %.80q: send the etag of the object as you read it, or *", etag)
	}
	return nil
}

// Matches rejects a change whose condition does not hold. want is the version that the call requires, "" for no
// condition; have is the current one, "" if the object does not exist.
func Matches(want, what, have string) error {
	if want == "" || want == have || want == AnyVersion && have != "" {
		return nil
	}
	if have == "" {
		return rota.Refusef(rota.KindConflict, "version",
			"%s does not exist, and the call asks for version %.80q of it: "+
				"create it without if_match", what, want)
	}
	return rota.Refusef(rota.KindConflict, "version",
		"%s has version %s, not %.80q: it was changed since you read it; "+
			"read it again and repeat the change with its current etag", what, have, want)
}
