package rest

// Sentence returns the doc comment of a type, or of a field of one: Job or Job.State for package
// rota, rest.Problem for this one. It returns "" where there is none.
func Sentence(name string) string { return sentences[name] }
