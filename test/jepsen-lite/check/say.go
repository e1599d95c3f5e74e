package check

import (
	"fmt"
	"os"
)

// Say talks to people.
func Say(format string, args ...any) { fmt.Fprintf(os.Stderr, "jepsen-lite: "+format+"\n", args...) }
