package codec

import (
	"fmt"
	"reflect"
	"slices"

	"google.golang.org/protobuf/compiler/protogen"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// enums are the names in package words of the texts of each enumeration.
var enums = map[reflect.Type]string{
	reflect.TypeFor[rota.JobState]():      "jobStates",
	reflect.TypeFor[rota.LeaseState]():    "leaseStates",
	reflect.TypeFor[rota.Reason]():        "reasons",
	reflect.TypeFor[rota.ReasoningRule](): "rules",
}

// numbered are the names in package words for reading the numbers of each enumeration.
var numbered = map[reflect.Type]string{
	reflect.TypeFor[rota.LeaseVerb](): "verbFromWire",
	reflect.TypeFor[peer.FailKind]():  "failFromWire",
}

// wire writes the writers and readers of package words.
func (w *writer) wire(messages map[string]*protogen.Message) error {
	w.head("words", "google.golang.org/protobuf/encoding/protowire", "", "github.com/rotasched/rota",
		"rotav1 github.com/rotasched/rota/api/rota/v1",
		"github.com/rotasched/rota/internal/millis", "github.com/rotasched/rota/internal/peer")
	w.numbers(wireFields, messages)
	for _, m := range wireMessages {
		fields, err := match(m, messages[m.name])
		if err != nil {
			return err
		}
		w.appendMessage(m, fields)
		if slices.ContainsFunc(fields, settled) {
			w.unsettled(m, fields)
			w.settle(m, fields)
		}
		w.readMessage(m, fields)
		if m.name == "JobSpec" {
			w.most(fields)
			w.convert("rotav1", fields)
		}
	}
	return nil
}

func (w *writer) appendMessage(m message, fields []field) {
	w.line("\nfunc append%s(b []byte, m *%v) []byte {", m.name, m.words)
	if slices.ContainsFunc(fields, func(f field) bool { return f.form == nested || f.form == part }) {
		w.line("var at int")
	}
	for _, f := range fields {
		n, v := f.number(), "m."+f.path
		switch f.form {
		case text:
			w.line("b = appendText(b, %d, %s)", n, v)
		case blob:
			w.line("b = appendBytes(b, %d, %s)", n, v)
		case number, enumNumber:
			if f.Desc.HasOptionalKeyword() {
				w.line("b = appendSet(b, %d, %s)", n, v)
			} else {
				w.line("b = appendNumber(b, %d, %s)", n, v)
			}
		case millis, date:
			w.line("b = appendNumber(b, %d, %s)", n, f.sent(v))
		case flag:
			w.line("b = appendYes(b, %d, %s)", n, v)
		case texts:
			w.line("b = appendTexts(b, %d, %s)", n, v)
		case pairs:
			w.line("b = appendPairs(b, %d, %s)", n, v)
		case limits:
			w.line("b = appendLimits(b, %d, %s)", n, v)
		case enumText:
			w.line("b = appendText(b, %d, %s.text(%s))", n, enums[f.typ], v)
		case leaseID:
			w.line("b = appendBytes(b, %d, leaseIDToWire(&%s))", n, v)
		case token:
			w.line("b = appendToken(b, %d, %s)", n, v)
		case refusal:
			w.line("b = appendRefusal(b, %d, %s)", n, v)
		case refusalError:
			w.line("b = appendRefusal(b, %d, rota.ErrorOf(%s))", n, v)
		case nested:
			w.line("b, at = openMessage(b, %d)\nb = closeMessage(append%s(b, &%s), at)", n, f.Message.GoIdent.GoName, v)
		case part:
			w.line("if %s != nil {\nb, at = openMessage(b, %d)\nb = closeMessage(append%s(b, %[1]s), at)\n}", v, n,
				f.Message.GoIdent.GoName)
		}
	}
	w.line("return b\n}")
}

// settled reports whether a field is converted only when all of its message is read, because a later occurrence
// replaces an earlier one, which may have been wrong.
func settled(f field) bool {
	return slices.Contains([]form{enumText, enumNumber, leaseID, token, refusal, refusalError}, f.form) ||
		f.form == nested && nestedSettled(f)
}

// nestedSettled reports whether the message in a field is itself converted at the end.
func nestedSettled(f field) bool {
	i := slices.IndexFunc(wireMessages, func(m message) bool { return m.name == f.Message.GoIdent.GoName })
	if i < 0 {
		return false
	}
	fields, err := match(wireMessages[i], f.Message)
	return err == nil && slices.ContainsFunc(fields, settled)
}

// unsettled writes the type of the values that are converted at the end.
func (w *writer) unsettled(m message, fields []field) {
	w.line("\n// unsettled%s is what of a message is words only when all of it is read.\ntype unsettled%[1]s struct {",
		m.name)
	for _, f := range fields {
		name := lower(f.GoName)
		switch f.form {
		case enumText, token:
			w.line("%s string", name)
		case enumNumber:
			w.line("%s int32", name)
		case leaseID:
			w.line("%s []byte", name)
		case refusal, refusalError:
			w.line("%s *rotav1.Refusal", name)
		case nested:
			if settled(f) {
				w.line("%s unsettled%s", name, f.Message.GoIdent.GoName)
			}
			if m.must == string(f.Desc.Name()) {
				w.line("has%s bool", f.GoName)
			}
		}
	}
	w.line("}")
}

// settle writes the method that converts it.
func (w *writer) settle(m message, fields []field) {
	w.line("\nfunc (u *unsettled%s) settle(m *%v) (err error) {", m.name, m.words)
	for _, f := range fields {
		v, raw := "m."+f.path, "u."+lower(f.GoName)
		if m.must == string(f.Desc.Name()) {
			w.line("if !u.has%s {\nreturn rota.Refusef(rota.KindInvalid, %q, %q)\n}", f.GoName, m.must,
				m.called+" is missing")
		}
		switch f.form {
		case enumText:
			w.line("if %s, err = %s.value(%s); err != nil {\nreturn err\n}", v, enums[f.typ], raw)
		case enumNumber:
			w.line("if %s, err = %s(%s); err != nil {\nreturn err\n}", v, numbered[f.typ], raw)
		case leaseID:
			w.line("if %s, err = LeaseIDFromWire(%s); err != nil {\nreturn err\n}", v, raw)
		case token:
			w.line("if %s, err = tokenFromWire(%s); err != nil {\nreturn err\n}", v, raw)
		case refusal:
			w.line("%s = RefusalFromWire(%s)", v, raw)
		case refusalError:
			w.line("%s = RefusalFromWire(%s).OrNil()", v, raw)
		case nested:
			if settled(f) {
				w.line("if err = %s.settle(&%s); err != nil {\nreturn err\n}", raw, v)
			}
		}
	}
	w.line("return nil\n}")
}

// readMessage writes the reader, by the kinds of fields.
func (w *writer) readMessage(m message, fields []field) {
	if slices.ContainsFunc(fields, settled) {
		w.line("\nfunc (u *unsettled%s) read(m *%v, b []byte) error {", m.name, m.words)
	} else {
		w.line("\nfunc read%s(m *%v, b []byte) error {", m.name, m.words)
	}
	w.line("for len(b) > 0 {\nf, rest, err := nextField(b)\nif err != nil {\nreturn err\n}\nb = rest\nswitch f.kind {")
	w.line("case protowire.VarintType:\nswitch f.number {")
	for _, f := range fields {
		if s := readNumber(f); s != "" {
			w.line("case %d:\n%s", f.number(), s)
		}
	}
	w.line("}\ncase protowire.BytesType:\nswitch f.number {")
	for _, f := range fields {
		if s := readBytes(m, f); s != "" {
			w.line("case %d:\n%s", f.number(), s)
		}
	}
	w.line("}\n}\nif err != nil {\nreturn err\n}\n}\nreturn nil\n}")
}

func readNumber(f field) string {
	switch f.form {
	case number:
		if f.typ.Kind() == reflect.Uint64 && plain(f.typ) {
			return fmt.Sprintf("m.%s = f.value", f.path)
		}
		return fmt.Sprintf("m.%s = %v(f.value)", f.path, f.typ)
	case millis, date:
		return fmt.Sprintf("m.%s = %s", f.path, f.taken("int64(f.value)"))
	case flag:
		return fmt.Sprintf("m.%s = f.value != 0", f.path)
	case enumNumber:
		return fmt.Sprintf("u.%s = int32(f.value)", lower(f.GoName))
	}
	return ""
}

func readBytes(m message, f field) string {
	v, raw := "m."+f.path, "u."+lower(f.GoName)
	switch f.form {
	case text:
		return fmt.Sprintf("err = textOfBytes(&%s, f.bytes)", v)
	case blob:
		return v + " = f.bytes"
	case texts:
		return fmt.Sprintf("err = readText(&%s, f.bytes)", v)
	case pairs:
		return fmt.Sprintf("err = pairOfBytes(&%s, f.bytes)", v)
	case limits:
		if f.typ.Name() != "" {
			return fmt.Sprintf("err = limitOfBytes((*map[string]int64)(&%s), f.bytes)", v)
		}
		return fmt.Sprintf("err = limitOfBytes(&%s, f.bytes)", v)
	case enumText, token:
		return fmt.Sprintf("err = textOfBytes(&%s, f.bytes)", raw)
	case leaseID:
		return raw + " = f.bytes"
	case refusal, refusalError:
		return fmt.Sprintf("err = mergeRefusal(&%s, f.bytes)", raw)
	case part:
		return fmt.Sprintf("if %s == nil {\n%[1]s = new(%[2]v)\n}\nerr = read%[3]s(%[1]s, f.bytes)", v, f.typ.Elem(),
			f.Message.GoIdent.GoName)
	case nested:
		s := fmt.Sprintf("err = read%s(&%s, f.bytes)", f.Message.GoIdent.GoName, v)
		if settled(f) {
			s = fmt.Sprintf("err = %s.read(&%s, f.bytes)", raw, v)
		}
		if m.must == string(f.Desc.Name()) {
			s = fmt.Sprintf("u.has%s = true\n%s", f.GoName, s)
		}
		return s
	}
	return ""
}

// most writes the maximum size of a job.
func (w *writer) most(fields []field) {
	w.line("\n// maxJobSpec is what the texts, bytes, lists and maps of a job take at most.\nfunc maxJobSpec(m *rota.JobSpec) (n int) {")
	for _, f := range fields {
		switch v := "m." + f.path; f.form {
		case text, blob:
			w.line("n += len(%s)", v)
		case texts:
			w.line("for _, text := range %s {\nn += len(text) + 8\n}", v)
		case pairs:
			w.line("for k, v := range %s {\nn += len(k) + len(v) + 16\n}", v)
		case limits:
			w.line("for k := range %s {\nn += len(k) + 24\n}", v)
		case part:
			w.line("n += max%s(%s)", f.Message.GoIdent.GoName, v)
		}
	}
	w.line("return n\n}")
}
