package tidy

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// citable are the documents whose numbered rules other files cite, such as SPEC with a section sign and 5.3. The anchor
// of rule 5.3 is 5-3.
var citable = map[string]string{"SPEC": "docs/spec.md", "RAFT": "docs/raft.md", "SECURITY": "docs/security.md"}

// sourceDesigns are the designs that rota unites. They are cited by their own sections; docs/internals/sources.md
// covers each of them requirement by requirement.
var sourceDesigns = []string{"AICF", "DFPS-S", "DFPS-R", "DAG", "FF"}

// sourcesPage has their requirements.
const sourcesPage = "docs/internals/sources.md"

// attacksPage numbers the attacks on time, from H1.
const attacksPage = "docs/raft.md"

var (
	// The text after the first number of a citation: "SPEC §7.8, 7.9 and §8.5".
	furtherRules = `(?:(?:,| and| or| to|–|/)\s*§?\d+\.\d+\b)*`
	citedRule    = regexp.MustCompile(`(SPEC|RAFT|SECURITY)(?:\.md)?\s+§?\s?(\d+(?:\.\d+)?\b` + furtherRules + `)`)
	// On the page of the sources a rule of the specification is cited as S 5.3.
	shortRule   = regexp.MustCompile(`\bS (\d+(?:\.\d+)?\b` + furtherRules + `)`)
	ruleNumber  = regexp.MustCompile(`\d+(?:\.\d+)?`)
	citedDesign = regexp.MustCompile(`(AICF|DFPS-S|DFPS-R|FF) §(\d+(?:\.\d+)?)`)
	designRow   = regexp.MustCompile(`(?m)^\| ([A-Z]+(?:-[A-Z])?)-\d+ \| ([^|]*§[^|]*) \|`)
	citedOther  = regexp.MustCompile(`\b([A-Z]{2,}(?:-[A-Z]+)*)(?:\.md)?\s+§`)
	citedBare   = regexp.MustCompile(
		`\b(HOUSE|TESTING|STYLE|CLI|PERFORMANCE|USERS|FORESIGHT|CONSOLE)\s+\d+(?:\.\d+)*\b`)
	capitalPage = regexp.MustCompile(`\b([A-Z]{2,}(?:-[A-Z]+)*\.md)\b`)
	citedADR    = regexp.MustCompile(`ADRs? (\d+)\b`)
	citedAttack = regexp.MustCompile(`H(\d+)\b`)
	anchorMark  = regexp.MustCompile(`<a id="([^"]+)"></a>`)
	headingMark = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInSlug   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	fragment    = regexp.MustCompile(`\]\(([^)#:\s]*)#([^)\s]+)\)`)
)

// anchors returns the possible link targets in a Markdown text: its explicit anchors, and its headings as GitHub names
// them.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range anchorMark.FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	for _, m := range headingMark.FindAllStringSubmatch(text, -1) {
		slug := notInSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), "")
		found[strings.ReplaceAll(slug, " ", "-")] = true
	}
	return found
}

// flat returns text with line breaks, and the comment marks at the beginning of lines, replaced by spaces, so that a
// citation may span lines. Offsets stay.
func flat(text string) string {
	b := []byte(text)
	begins := false
	for i, c := range b {
		switch {
		case c == '\n':
			begins = true
			b[i] = ' '
		case begins && strings.IndexByte("/#>", c) >= 0:
			b[i] = ' '
		case c != ' ' && c != '\t':
			begins = false
		}
	}
	return string(b)
}

// prose reports whether a file is read for citations: sources, schemas, documents, scripts.
func prose(p string) bool {
	if hidden(p) && !strings.HasPrefix(p, ".ci/") {
		return false
	}
	return slices.Contains([]string{".go", ".md", ".proto", ".yml", ".yaml", ".sh", ".py", ""}, path.Ext(p))
}

// citations collects the faults of one tree.
type citations struct {
	tree    *tree
	anchors map[string]map[string]bool
	// sections are those of the source designs that have a row.
	sections map[string]bool
	faults   []string
}

// has reports whether a page has an anchor.
func (c *citations) has(page, anchor string) bool {
	if c.anchors[page] == nil {
		text, err := c.tree.read(page)
		if err != nil {
			text = nil
		}
		c.anchors[page] = anchors(string(text))
	}
	return c.anchors[page][anchor]
}

// asked reports whether the page of the sources has a row of a design's section, or of a part of it. Rows of DAG name
// no sections.
func (c *citations) asked(cited string) bool {
	if c.sections == nil {
		c.sections = map[string]bool{}
		text, err := c.tree.read(sourcesPage)
		if err != nil {
			return false
		}
		for _, m := range designRow.FindAllStringSubmatch(string(text), -1) {
			for _, n := range ruleNumber.FindAllString(m[2], -1) {
				section, _, _ := strings.Cut(n, ".")
				c.sections[m[1]+" §"+n], c.sections[m[1]+" §"+section] = true, true
			}
		}
	}
	return c.sections[cited]
}

func (c *citations) fault(p, text string, offset int, format string, args ...any) {
	line := strconv.Itoa(1 + strings.Count(text[:offset], "\n"))
	c.faults = append(c.faults, p+":"+line+": "+fmt.Sprintf(format, args...))
}

// rules requires an anchor for each number of a citation.
func (c *citations) rules(p, text string, offset int, page, numbers string) {
	for _, n := range ruleNumber.FindAllString(numbers, -1) {
		if !c.has(page, strings.ReplaceAll(n, ".", "-")) {
			c.fault(p, text, offset, "cites rule %s of %s, which is not there", n, page)
		}
	}
}

// word reports whether a byte belongs to a name.
func word(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}

// file checks one text.
func (c *citations) file(p, text string) {
	line := flat(text)
	c.numbered(p, text, line)
	c.named(p, text, line)
}

// numbered checks citations of rules, decisions and attacks.
func (c *citations) numbered(p, text, line string) {
	for _, m := range citedRule.FindAllStringSubmatchIndex(line, -1) {
		c.rules(p, text, m[0], citable[line[m[2]:m[3]]], line[m[4]:m[5]])
	}
	if path.Base(p) == "sources.md" {
		for _, m := range shortRule.FindAllStringSubmatchIndex(line, -1) {
			c.rules(p, text, m[0], citable["SPEC"], line[m[2]:m[3]])
		}
	}
	for _, m := range citedDesign.FindAllStringSubmatchIndex(line, -1) {
		if cited := line[m[0]:m[1]]; p != sourcesPage && !c.asked(cited) {
			c.fault(p, text, m[0], "cites %s, of which %s has no row", cited, sourcesPage)
		}
	}
	for _, m := range citedADR.FindAllStringSubmatchIndex(line, -1) {
		n, _ := strconv.Atoi(line[m[2]:m[3]])
		var pages []string
		for _, q := range c.tree.paths {
			if strings.HasPrefix(q, fmt.Sprintf("docs/adr/%04d-", n)) {
				pages = append(pages, q)
			}
		}
		switch {
		case pages == nil:
			c.fault(p, text, m[0], "cites ADR %d, which is not there", n)
		case len(pages) > 1:
			c.fault(p, text, m[0], "cites ADR %d, which is each of %s: give one of them a new number", n,
				strings.Join(pages, ", "))
		}
	}
	for _, m := range citedAttack.FindAllStringSubmatchIndex(line, -1) {
		n := line[m[2]:m[3]]
		if begin := m[0] == 0 || !word(line[m[0]-1]); begin && !c.has(attacksPage, "h"+strings.TrimLeft(n, "0")) {
			c.fault(p, text, m[0], "cites attack H%s, which %s does not have", n, attacksPage)
		}
	}
}

// named checks citations of whole documents.
func (c *citations) named(p, text, line string) {
	if strings.Contains(line, "§") {
		for _, m := range citedOther.FindAllStringSubmatchIndex(line, -1) {
			if word := line[m[2]:m[3]]; citable[word] == "" && !slices.Contains(sourceDesigns, word) {
				c.fault(p, text, m[0], "cites %s, which is not a document of the repository", word)
			}
		}
	}
	for _, m := range citedBare.FindAllStringIndex(line, -1) {
		c.fault(p, text, m[0], "cites %s, which is not a document of the repository", line[m[0]:m[1]])
	}
	for _, m := range capitalPage.FindAllStringSubmatchIndex(line, -1) {
		name := line[m[2]:m[3]]
		if !slices.ContainsFunc(c.tree.paths, func(q string) bool { return path.Base(q) == name }) {
			c.fault(p, text, m[0], "cites %s, which is not a document of the repository", name)
		}
	}
}

// links requires the anchor of every link that names one.
func (c *citations) links(p, text string) {
	for _, m := range fragment.FindAllStringSubmatchIndex(text, -1) {
		target, anchor := text[m[2]:m[3]], text[m[4]:m[5]]
		page := p
		if target != "" {
			page = path.Join(path.Dir(p), target)
		}
		if path.Ext(page) == ".md" && !c.has(page, anchor) {
			c.fault(p, text, m[0], "links to #%s of %s, which is not there", anchor, page)
		}
	}
}

// checkReferences checks every citation of a numbered rule, of a decision, of an attack and of another document, and
// every link to a place in a page.
func checkReferences(t *tree) []string {
	c := &citations{tree: t, anchors: map[string]map[string]bool{}}
	for _, p := range t.paths {
		if !prose(p) {
			continue
		}
		text, err := t.read(p)
		if err != nil {
			return append(c.faults, err.Error())
		}
		c.file(p, string(text))
		if path.Ext(p) == ".md" {
			c.links(p, string(text))
		}
	}
	return c.faults
}

var (
	ruleMark    = regexp.MustCompile(`\*\*(\d+)\.(\d+)\*\*`)
	sectionMark = regexp.MustCompile(`(?m)^## (\d+)\.`)
)

// checkRules requires every numbered rule of a page at the beginning of a paragraph, after its anchor, in order, and an
// anchor above every numbered section.
func checkRules(text string) (faults []string) {
	text = "\n\n" + text
	last, lastName := 0, ""
	for _, m := range ruleMark.FindAllStringSubmatchIndex(text, -1) {
		section, _ := strconv.Atoi(text[m[2]:m[3]])
		number, _ := strconv.Atoi(text[m[4]:m[5]])
		name := fmt.Sprintf("%d.%d", section, number)
		if !strings.HasSuffix(text[:m[0]], fmt.Sprintf("\n\n<a id=\"%d-%d\"></a>", section, number)) {
			faults = append(faults, "rule "+name+" begins no paragraph with its anchor")
		}
		if place := section*1000 + number; place <= last {
			faults = append(faults, name+" comes after "+lastName)
		} else {
			last, lastName = place, name
		}
	}
	for _, m := range sectionMark.FindAllStringSubmatchIndex(text, -1) {
		if n := text[m[2]:m[3]]; !strings.HasSuffix(text[:m[0]], "<a id=\""+n+"\"></a>\n\n") {
			faults = append(faults, "section "+n+" has no anchor")
		}
	}
	return faults
}
