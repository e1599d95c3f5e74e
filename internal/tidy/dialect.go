package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"iter"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A habit is a phrase or construction of this project's dialect that plain English does without.
type habit struct {
	name string
	// words are parts of which every match holds one; a sentence without them is not searched, as that takes long.
	words []string
	// is matches the habit.
	is *regexp.Regexp
	// but matches phrases that contain the same words and are fine; they are removed before counting. It may be nil.
	but *regexp.Regexp
}

// habits are what the dialect measures count. Each match adds one.
var habits = []habit{
	{
		"a clause as a noun (what waits)",
		[]string{"hat "},
		regexp.MustCompile(`\b[Ww]hat (?:is|are|was|were|has|have|had|may|must|can|cannot|would|should|[a-z]{3,}s)\b`),
		regexp.MustCompile(
			`\b[Ww]hat (?:its|this|happens|goes wrong|(?:user|job|caller|node|worker|other|client|server|queue|program)s)\b`),
	},
	{
		"stands",
		[]string{"tand", "stoo", "Stoo"},
		regexp.MustCompile(`\b[Ss]t(?:ands?|ood|anding)\b`),
		regexp.MustCompile(`\b(?:stands? for|stand-(?:in|by)|out-?standing)\b`),
	},
	{
		"programs that talk (told, tells, says)",
		[]string{"old", "ells", "ays", "aid"},
		regexp.MustCompile(`\b(?:[Tt]old|[Tt]ells|[Ss]ays|[Ss]aid)\b`),
		regexp.MustCompile(`\bRFC \d+ says\b`),
	},
	{
		"is wanted",
		[]string{"wanted"},
		regexp.MustCompile(`\b(?:is|are|was|were|be) wanted\b`), nil,
	},
	{
		"nobody, whoever, who may",
		[]string{"obody", "hoever", "may"},
		regexp.MustCompile(`\b(?:[Nn]obody|[Ww]hoever|[Ww]ho may)\b`), nil,
	},
	{
		"is taken",
		[]string{"taken"},
		regexp.MustCompile(`\b(?:is|are|was|were|be) taken\b`),
		regexp.MustCompile(
			`\b(?:(?:[Ss]napshot|[Bb]ackup|[Ll]ock)s? (?:is|are|was|were) taken|(?:is|are|was|were|be) taken (?:over|down|into account))\b`),
	},
	{
		"anew, mend, reckon, heed",
		[]string{"new", "end", "eckon", "eed"},
		regexp.MustCompile(`\b(?:[Aa]new|[Mm]end(?:s|ed|ing)?|[Rr]eckon(?:s|ed|ing)?|[Hh]eed(?:s|ed|ing|less)?)\b`),
		regexp.MustCompile(`\bmend-\w+`),
	},
	{
		"beside",
		[]string{"eside"},
		regexp.MustCompile(`\b[Bb]eside\b`), nil,
	},
	{
		"is no, no more",
		[]string{"no"},
		regexp.MustCompile(`\b(?:(?:is|are|was|were|be) no [a-z]+|no more)\b`),
		regexp.MustCompile(
			`\b(?:[Tt]here (?:is|are|was|were|can be|may be|must be|will be) no|no longer|no one|no more than)\b`),
	},
	{
		"of its own accord, unasked, so many, so long",
		[]string{"accord", "nasked", "many", "long"},
		regexp.MustCompile(`\b(?:of (?:its|their) own accord|[Uu]nasked|[Ss]o (?:many|long))\b`), nil,
	},
	{
		"private metaphors (comes to be, hangs on, gives way)",
		[]string{"hang", "give", "gave", "goes", "went", "way", "come", "came", "turnstile", "overtake"},
		regexp.MustCompile(
			`\b(?:c[oa]mes? to (?:be|stand)|hangs? (?:up)?on|g(?:ives?|ave) way|goes on|went on|under way|turnstiles?|overtakes?)\b`),
		nil,
	},
}

// countHabits returns how often each habit occurs in a text.
func countHabits(text string) [11]int {
	var counts [11]int
	for sentence := range sentences(text) {
		for i, h := range habits {
			if !slices.ContainsFunc(h.words, func(w string) bool { return strings.Contains(sentence, w) }) {
				continue
			}
			rest := sentence
			if h.but != nil {
				rest = h.but.ReplaceAllString(rest, "")
			}
			counts[i] += len(h.is.FindAllStringIndex(rest, -1))
		}
	}
	return counts
}

// sentences returns the sentences of a text, each on one line. A phrase may be broken at the end of a line, before the
// mark of a quotation too.
func sentences(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		var words []string
		for line := range strings.Lines(text) {
			for _, word := range strings.Fields(line) {
				if word == ">" {
					continue
				}
				words = append(words, word)
				if strings.ContainsAny(word[len(word)-1:], ".:;") {
					if !yield(strings.Join(words, " ")) {
						return
					}
					words = words[:0]
				}
			}
		}
		yield(strings.Join(words, " "))
	}
}

// proseOfGo returns the comments and string literals of a source, each ended by a full stop.
func proseOfGo(f *file) string {
	var b strings.Builder
	for _, group := range f.syntax.Comments {
		b.WriteString(group.Text() + "\n.\n")
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if value, err := strconv.Unquote(lit.Value); err == nil {
				b.WriteString(value + "\n.\n")
			}
		}
		return true
	})
	return b.String()
}

// codeSpan is code within a line of Markdown.
var codeSpan = regexp.MustCompile("`[^`\n]*`")

// proseOfMarkdown returns a document without its code blocks and code spans.
func proseOfMarkdown(text string) string {
	var b strings.Builder
	fence := ""
	for line := range strings.Lines(text) {
		bare := strings.TrimLeft(line, " \t>")
		switch {
		case fence == "" && (strings.HasPrefix(bare, "```") || strings.HasPrefix(bare, "~~~")):
			fence = bare[:3]
		case fence != "" && strings.HasPrefix(bare, fence):
			fence = ""
		case fence == "":
			b.WriteString(codeSpan.ReplaceAllString(line, "`"))
		}
	}
	return b.String()
}

// maxDialect is how many files a dialect measure names.
const maxDialect = 10

// dialectLines is the number of lines that a dialect measure is given per.
const dialectLines = 10_000

// A dialectCount is what one medium, Go or Markdown, holds of the habits.
type dialectCount struct {
	medium string
	lines  int
	habits [11]int
	files  map[string]int
}

func (c *dialectCount) add(name, text, prose string) {
	c.lines += strings.Count(text, "\n")
	for i, n := range countHabits(prose) {
		c.habits[i] += n
		if n > 0 {
			c.files[name] += n
		}
	}
}

// perLines returns n per 10,000 lines, rounded up.
func (c *dialectCount) perLines(n int) int {
	return (n*dialectLines + c.lines - 1) / max(c.lines, 1)
}

// measure returns the figure of all habits together.
func (c *dialectCount) measure() measure {
	return measure{"habits of dialect per 10,000 lines of " + c.medium, c.perLines(sum(c.files)),
		topMostOf(c.files, maxDialect)}
}

// byHabit returns a line on each habit.
func (c *dialectCount) byHabit() []string {
	lines := make([]string, 0, len(habits))
	for i, h := range habits {
		lines = append(lines, fmt.Sprintf("%7d  %s in %s: %d per 10,000 lines", c.habits[i], h.name, c.medium,
			c.perLines(c.habits[i])))
	}
	return lines
}

// habitList is the file that has to name the habits.
const habitList = "internal/tidy/dialect.go"

// countDialect counts the habits in the hand-written Go sources of a tree, tests among them, and in its Markdown.
func countDialect(t *tree) (goCount, markdown *dialectCount) {
	goCount = &dialectCount{medium: "Go", files: map[string]int{}}
	markdown = &dialectCount{medium: "Markdown", files: map[string]int{}}
	for _, f := range t.files {
		if !f.generated && f.path != habitList {
			goCount.add(f.path, string(f.text), proseOfGo(f))
		}
	}
	for _, p := range t.paths {
		if path.Ext(p) != ".md" || hidden(p) {
			continue
		}
		if text, err := t.read(p); err == nil {
			text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
			markdown.add(p, string(text), proseOfMarkdown(string(text)))
		}
	}
	return goCount, markdown
}
