package tidy

import "testing"

// TestMarkup checks that markup that a browser would block, or execute, is found in the console's sources.
func TestMarkup(t *testing.T) {
	t.Parallel()
	for line, wrong := range map[string]bool{
		`<p>{@html job.payload}</p>`:                 true,
		`<div class="bar" style="width: 3px"></div>`: true,
		`<div style={width}></div>`:                  true,
		`<div style:width={width}></div>`:            false,
		`node.innerHTML = text;`:                     true,
		`<script>alert(1)</script>`:                  true,
		`<script lang="ts">`:                         false,
		`<p class="style">{text}</p>`:                false,
		`const style = "dark";`:                      true, // it looks like one: use another name
	} {
		tree, err := plant(map[string]string{"console/src/pages/job/Job.svelte": line, "docs/x.md": line})
		if err != nil {
			t.Fatal(err)
		}
		if faults := checkMarkup(tree); (len(faults) > 0) != wrong {
			t.Errorf("%s: %v", line, faults)
		}
	}
}
