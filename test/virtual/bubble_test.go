package virtual

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
)

// neverAnswered waits for a future that raft never answers, and so ends with the process: when it stops, hashicorp/raft
// drops the futures that had not reached the state machine.
const neverAnswered = "rota/cluster.awaitAnswer("

// inBubble runs f in a bubble. A goroutine that remains at the end is a fault, except those that wait for a future that
// raft never answers.
func inBubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	var name string
	defer func() {
		broken := recover()
		if broken == nil {
			return
		}
		if left := leftIn(name); name == "" || !strings.Contains(fmt.Sprint(broken), "blocked goroutines remain") ||
			len(left) > 0 {
			panic(fmt.Sprint(broken, "\n\n", strings.Join(left, "\n\n")))
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		name = bubbleName.FindString(stacks(1<<16, false))
		f(t)
	})
}

var bubbleName = regexp.MustCompile(`synctest bubble \d+\]`)

// leftIn lists the goroutines of a bubble except those that may remain.
func leftIn(name string) (left []string) {
	for one := range strings.SplitSeq(stacks(64<<20, true), "\n\n") {
		head, _, _ := strings.Cut(one, "\n")
		if strings.Contains(head, name) && !strings.Contains(one, neverAnswered) {
			left = append(left, one)
		}
	}
	return left
}

func stacks(most int, all bool) string {
	text := make([]byte, most)
	return string(text[:runtime.Stack(text, all)])
}

// TestInBubble checks that a remaining goroutine is reported, unless it waits for a future that raft never answers.
func TestInBubble(t *testing.T) {
	var broken any
	func() {
		defer func() { broken = recover() }()
		inBubble(t, func(*testing.T) { go func() { <-make(chan struct{}) }() })
	}()
	if text := fmt.Sprint(broken); !strings.Contains(text, "TestInBubble") {
		t.Errorf("its report of a goroutine that is left: %s", text)
	}
}
