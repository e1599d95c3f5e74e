package tidy

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// unsafeMarkup lists markup that the console's policy blocks in a browser, or that would show a user's text as markup.
var unsafeMarkup = []struct {
	is   *regexp.Regexp
	says string
}{
	{regexp.MustCompile(`\{@html\b`), "what somebody sent must stay text: no {@html}"},
	{regexp.MustCompile(`(^|[\s"'])style\s*=\s*["'{]`),
		"the page's policy refuses style attributes: use a class, or style:property={…}"},
	{regexp.MustCompile(`\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write)\b`),
		"the page's policy refuses markup made of text: use elements and textContent"},
	{regexp.MustCompile(`<script[^>]*>[^<]`), "the page's policy refuses scripts within it"},
}

// checkMarkup reads the console's sources and its page.
func checkMarkup(t *tree) []string {
	var faults []string
	for _, p := range t.paths {
		ext := path.Ext(p)
		if source := strings.HasPrefix(p, "console/src/") && (ext == ".svelte" || ext == ".ts"); !source &&
			p != "console/index.html" {
			continue
		}
		text, err := t.read(p)
		if err != nil {
			return append(faults, err.Error())
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, u := range unsafeMarkup {
				if found := u.is.FindString(line); found != "" {
					faults = append(faults, fmt.Sprintf("%s:%d: %q: %s", p, i+1, strings.TrimSpace(found), u.says))
				}
			}
		}
	}
	return faults
}
