package web

import "testing"

// TestDecode_misread reads what is wrong with a body as a person would say it.
func TestDecode_misread(t *testing.T) {
	for raw, want := range map[string]string{
		`{"jobs":{}}`: "jobs is an object: a list is wanted", `{"jobs":[[]]}`: "jobs is an array: an object is wanted",
		`{"jobs":5}`: "jobs is a number: a list is wanted", `{"jobs":"x"}`: "jobs is a string: a list is wanted",
	} {
		var into struct {
			Jobs []struct{} `json:"jobs"`
		}
		if err := decode([]byte(raw), &into, ""); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
}
