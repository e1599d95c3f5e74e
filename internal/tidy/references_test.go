package tidy

import (
	"strings"
	"testing"
)

func TestReferences(t *testing.T) {
	t.Parallel()
	tree, _ := setup(t)
	report(t, checkReferences(tree))
}

// TestReferences_theSpecification checks the form of the specification: each rule begins a paragraph with its anchor,
// and they are in order.
func TestReferences_theSpecification(t *testing.T) {
	t.Parallel()
	tree, _ := setup(t)
	text, err := tree.read(citable["SPEC"])
	if err != nil {
		t.Fatal(err)
	}
	report(t, checkRules(string(text)))
}

func TestReferencesPlants(t *testing.T) {
	t.Parallel()
	// The citations are assembled from pieces so that this file does not contain them.
	const spec, raft, security = "SP" + "EC", "RA" + "FT", "SECUR" + "ITY"
	pages := func(p, text string) map[string]string {
		return map[string]string{p: text,
			"docs/spec.md":              "<a id=\"7\"></a>\n\n## 7. Matching\n\n<a id=\"7-8\"></a>**7.8** x\n\n<a id=\"7-9\"></a>**7.9** y\n",
			"docs/raft.md":              "<a id=\"2-1\"></a>**2.1** x\n\n<a id=\"h3\"></a>**H" + "3** y\n",
			"docs/internals/sources.md": "| FF-1 | §3.1 \"asked\" | x | y |\n",
			"docs/adr/0008-x.md":        "# A heading, with: signs\n", "docs/adr/0007-x.md": "",
			"docs/adr/0007-y.md": ""}
	}
	code := func(text string) map[string]string { return pages("fsm/a.go", "package fsm\n\n"+text+"\n") }
	walk(t, checkReferences, []violation{
		{"rules_that_are_there", code("// " + spec + " §7.8, 7.9 and §7.9; " + spec + " §7; " + raft +
			" §2.1; FF §3.1 and FF §3"), nil},
		{"a_rule_made_up", code("// " + spec + " §7.10"), []string{"fsm/a.go:3: cites rule 7.10 of docs/spec.md"}},
		{"the_second_of_two", code("// " + spec + " §7.8, 7.11"), []string{"cites rule 7.11"}},
		{"over_the_end_of_a_line", code("// x " + spec + "\n// §7.12"), []string{"fsm/a.go:3: cites rule 7.12"}},
		{"without_the_sign", pages("docs/a.md", "as "+spec+" 8.1 requires"), []string{"docs/a.md:1: cites rule 8.1"}},
		{"in_a_schema", pages("api/a.proto", "// "+spec+" §9"), []string{"api/a.proto:1: cites rule 9"}},
		{"on_the_page_of_the_sources", pages("docs/internals/sources.md", "| S 7.8, 7.9 | S 6.6 |"),
			[]string{"cites rule 6.6"}},
		{"a_trap_made_up", code("// " + raft + " §2.9"), []string{"cites rule 2.9 of docs/raft.md"}},
		{"a_page_without_rules", code("// " + security + " 5.6"), []string{"cites rule 5.6 of docs/security.md"}},
		{"another_document", code("// HOU" + "SE" + " §3"), []string{"cites HOUSE, which is not a document"}},
		{"another_without_the_sign", code("// TEST" + "ING 5.1"), []string{"which is not a document"}},
		{"another_by_its_file", code("// see CL" + "I.md"),
			[]string{"cites CL" + "I" + ".md, which is not a document"}},
		{"a_section_that_no_source_has", code("// AI" + "CF" + " §99 and F" + "F" + " §3.2"),
			[]string{"cites AI" + "CF" + " §99", "cites F" + "F" + " §3.2"}},
		{"decisions", code("// AD" + "R 8, and AD" + "R 9"), []string{"cites AD" + "R 9"}},
		{"two_decisions_of_one_number", code("// AD" + "R 7"),
			[]string{"cites AD" + "R 7, which is each of docs/adr/0007-x.md, docs/adr/0007-y.md"}},
		{"attacks", code("// H" + "3 and H" + "4"), []string{"cites attack H" + "4"}},
		{"links", pages("docs/b.md",
			"[a](spec.md#7-8) [b](spec.md#7-1) [c](#x) [d](adr/0008-x.md#a-heading-with-signs) [e](#y)\n# Y\n"),
			[]string{"links to #7-1 of docs/spec.md", "links to #x of docs/b.md"}},
	})
	rule := func(n string) string {
		return "<a id=\"" + strings.ReplaceAll(n, ".", "-") + "\"></a>**" + n + "** x\n\n"
	}
	for name, c := range map[string]struct{ text, want string }{
		"sound": {"<a id=\"2\"></a>\n\n## 2. Two\n\n" + rule("2.1") + rule("2.3") +
			"<a id=\"3\"></a>\n\n## 3. Three\n\n" + rule("3.0"), ""},
		"out of order":       {rule("2.3") + rule("2.1"), "2.1 comes after 2.3"},
		"twice":              {rule("2.1") + rule("2.1"), "2.1 comes after 2.1"},
		"inside a paragraph": {"a b **2.1** c\n", "rule 2.1 begins no paragraph with its anchor"},
		"a wrong anchor":     {"<a id=\"2-2\"></a>**2.1** c\n", "rule 2.1 begins no paragraph with its anchor"},
		"a bare section":     {"\n## 2. Two\n", "section 2 has no anchor"},
	} {
		if got := strings.Join(checkRules(c.text), "; "); got != c.want {
			t.Errorf("%s: faults are %q, want %q", name, got, c.want)
		}
	}
}
