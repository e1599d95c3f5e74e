package depot

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"

	"github.com/rotasched/rota"
)

// ageMagic begins every file that age encrypts.
const ageMagic = "age-encryption.org/"

// Identities open backups sealed for them.
type Identities []age.Identity

func parseRecipients(list []string) (all []age.Recipient, err error) {
	for _, text := range list {
		if strings.HasPrefix(text, "AGE-SECRET-KEY-") { // never shown
			return nil, rota.Refusef(rota.KindInvalid, "backup-recipient",
				"backup-recipient: got an identity, want a recipient; keep identities off the nodes. "+
					"Make a new one with `age-keygen`, and pass the output of `age-keygen -y`, which begins with age1")
		}
		some, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil {
			return nil, &rota.Error{Kind: rota.KindInvalid, Subject: "backup-recipient",
				Text: fmt.Sprintf("backup-recipient: got %q; use the output of "+
					"`age-keygen -y`, which begins with age1", text), Cause: err}
		}
		all = append(all, some...)
	}
	if len(all) == 0 {
		return nil, nil
	}
	if _, err := age.Encrypt(io.Discard, all...); err != nil { // each may be valid, but not together with the others
		return nil, &rota.Error{Kind: rota.KindInvalid, Subject: "backup-recipient",
			Text: "nothing can be encrypted for all recipients together: give " +
				"post-quantum recipients (age1pq1…) or others, not both", Cause: err}
	}
	return all, nil
}

// ParseIdentities parses the output of age-keygen.
func ParseIdentities(text []byte) (Identities, error) {
	list, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil { // age's message about a line may hold a key
		return nil, rota.Refusef(rota.KindInvalid, "identity",
			"it holds no age identities: give a file that `age-keygen` wrote, lines of "+
				"AGE-SECRET-KEY-1")
	}
	return list, nil
}

// seal passes write a writer that encrypts for the recipients, or w if there are none.
func (d *Depot) seal(w io.Writer, write func(io.Writer) error) error {
	if len(d.recipients) == 0 {
		return write(w)
	}
	sealed, err := age.Encrypt(w, d.recipients...)
	if err != nil {
		return err
	}
	if err := write(sealed); err != nil {
		return err // without its last block it cannot be opened
	}
	return sealed.Close()
}

// Unseal returns the content of a backup's bytes, sealed or not.
func Unseal(r io.Reader, with Identities) (io.Reader, error) {
	b := bufio.NewReader(r)
	begins, err := b.Peek(len(ageMagic))
	if string(begins) != ageMagic {
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		return b, nil
	}
	if len(with) == 0 {
		return nil, rota.Refusef(rota.KindInvalid, "identity",
			"the backup is sealed: name the file with its age identity by --identity")
	}
	opened, err := age.Decrypt(b, with...)
	if none := (*age.NoIdentityMatchError)(nil); errors.As(err, &none) {
		return nil, rota.Refusef(rota.KindInvalid, "identity", "none of the %d given identities opens the backup",
			len(with))
	}
	if err != nil {
		return nil, &rota.Error{Kind: rota.KindInvalid, Subject: "backup", Text: "the sealed backup is damaged",
			Cause: err}
	}
	return sealedReader{opened}, nil
}

// sealedReader reports age's errors as a damaged backup.
type sealedReader struct{ r io.Reader }

func (s sealedReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &rota.Error{Kind: rota.KindInvalid, Subject: "backup", Text: "the sealed backup is damaged or truncated",
			Cause: err}
	}
	return n, err
}
