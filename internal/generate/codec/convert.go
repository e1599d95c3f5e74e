package codec

import "fmt"

// convert writes fillJobSpec and takeJobSpec, between words and a generated message. The caller handles fields that may
// be unset.
func (w *writer) convert(pb string, fields []field) {
	in, out := map[form]string{}, map[form]string{}
	if pb == "fsmpb" { // which keeps maps as sorted lists
		in = map[form]string{pairs: "pairOps", limits: "limitOps"}
		out = map[form]string{pairs: "PairWords", limits: "limitWords"}
	}
	w.line("\n// fillJobSpec writes words into their message, but for what may be unset in it.")
	w.line("func fillJobSpec(w *%s.JobSpec, m *rota.JobSpec) {", pb)
	for _, f := range fields {
		if f.Desc.HasOptionalKeyword() {
			continue
		}
		v := "m." + f.path
		switch kind := f.typ.Kind().String(); {
		case f.form == millis || f.form == date:
			v = f.sent(v)
		case f.form == part:
			v = fmt.Sprintf("%sTo(%s)", lower(f.Message.GoIdent.GoName), v)
		case in[f.form] != "":
			v = fmt.Sprintf("%s(%s)", in[f.form], v)
		case (f.form == text || f.form == number) && !plain(f.typ):
			v = fmt.Sprintf("%s(%s)", kind, v)
		}
		w.line("w.%s = %s", f.GoName, v)
	}
	w.line("}\n\n// takeJobSpec is the inverse of fillJobSpec; slices and maps are shared with w.")
	w.line("func takeJobSpec(m *rota.JobSpec, w *%s.JobSpec) {", pb)
	for _, f := range fields {
		if f.Desc.HasOptionalKeyword() {
			continue
		}
		v := fmt.Sprintf("w.Get%s()", f.GoName)
		switch {
		case f.form == millis || f.form == date:
			v = f.taken(v)
		case f.form == part:
			v = fmt.Sprintf("%sFrom(%s)", lower(f.Message.GoIdent.GoName), v)
		case out[f.form] != "":
			v = fmt.Sprintf("%s(%s)", out[f.form], v)
		case (f.form == text || f.form == number) && !plain(f.typ):
			v = fmt.Sprintf("%v(%s)", f.typ, v)
		}
		w.line("m.%s = %s", f.path, v)
	}
	w.line("}")
}
