package python

import (
	"strings"
	"testing"

	"github.com/rotasched/rota/internal/generate/schema"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	set, err := schema.Compile(t.Context(), "../../..", schema.Roots[0])
	if err != nil {
		t.Fatal(err)
	}
	files, err := Files(set)
	if err != nil || len(files) != 2 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	module, types := string(files[0].Content), string(files[1].Content)
	for _, c := range []struct{ what, in, want string }{
		{"a call", module, `JOBS_SUBMIT = Method("/rota.v1.Jobs/Submit", SubmitRequest, SubmitResponse)`},
		{"a name of two words", module,
			`CLUSTER_GET_MODE = Method("/rota.v1.Cluster/GetMode", GetModeRequest, GetModeResponse)`},
		{"a number", module, "LEASE_VERB_COMPLETE = 3\n"},
		{"a stranger's message", module, `RetryInfo = _of("google.rpc.RetryInfo")`},
		{"a map", types, "    def labels(self) -> MutableMapping[str, str]: ..."},
		{"a list", types, "    def jobs(self) -> MutableSequence[JobSpec]: ..."},
		{"a call's types", types, "JOBS_WAIT: Method[WaitJobsRequest, Job]\n"},
	} {
		if !strings.Contains(c.in, c.want) {
			t.Errorf("%s: %q is missing", c.what, c.want)
		}
	}
	if strings.Contains(module, "ForwardRequest") {
		t.Error("calls between nodes are there")
	}
}
