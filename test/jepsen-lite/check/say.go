package check

import (
	"fmt"
	"os"
)

// Say prints a message for people.
func Say(format string, args ...any) { fmt.Fprintf(os.Stderr, "jepsen-lite: "+format+"\n", args...) }
