package logs

import (
	"bytes"
	"io"
	"regexp"
)

// tokens matches access tokens, whole or cut: the id may be seen, the rest is secret.
var tokens = regexp.MustCompile(`(rota_[a-z2-7]{12}_)[A-Za-z0-9]+`)

// Mask returns a text without the secrets of access tokens.
func Mask(text string) string { return tokens.ReplaceAllString(text, "${1}…") }

// Masking returns a writer that removes the secrets of access tokens from lines: in a message, an attribute, a group or
// an error, with any handler of log/slog.
func Masking(to io.Writer) io.Writer { return masking{to} }

type masking struct{ to io.Writer }

// Write writes one or more whole lines.
func (m masking) Write(lines []byte) (int, error) {
	masked := lines
	if bytes.Contains(lines, []byte("rota_")) {
		masked = tokens.ReplaceAll(lines, []byte("${1}…"))
	}
	n, err := m.to.Write(masked)
	if err == nil && n == len(masked) {
		return len(lines), nil
	}
	return min(n, len(lines)), err
}
