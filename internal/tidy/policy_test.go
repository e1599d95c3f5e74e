package tidy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// TestPolicyPage compares docs/reference/policy.md with the table of keys that it is made from.
func TestPolicyPage(t *testing.T) {
	page, path := policyPage(), filepath.Join("..", "..", "docs", "reference", "policy.md")
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have, err := os.ReadFile(path); err != nil || string(have) != page {
		t.Fatalf("docs/reference/policy.md is stale (%v): run `go test ./internal/tidy -run TestPolicyPage -update`",
			err)
	}
	for _, d := range rota.PolicyDocs() {
		if !strings.HasSuffix(d.Meaning, ".") || d.Source == "" || d.Values == "" ||
			strings.Contains(d.Meaning+d.Source, "|") {
			t.Errorf("key %s has too short a description: %+v", d.Key, d)
		}
	}
}

// ruleOfKey is a rule of the specification as the source of a key.
var ruleOfKey = regexp.MustCompile(`SPEC §?[\d.]+`)

// valueRange is the range of a key's values, and bothAICF a default of the two presets of one design, in columns that
// the page shows in fewer words.
var (
	valueRange = regexp.MustCompile(`^(?:a duration, |a (ratio), |(bytes), )?(-?[\d.a-z]+) to ([\d.a-z]+)$`)
	bothAICF   = regexp.MustCompile("aicf-ai (`[^`]+`), aicf-quantum (`[^`]+`)")
)

func shortRange(values string) string {
	m := valueRange.FindStringSubmatch(values)
	if m == nil {
		return values
	}
	return strings.TrimSpace(m[1] + m[2] + " " + m[3] + "…" + m[4])
}

// policyPage returns docs/reference/policy.md.
func policyPage() string {
	var b strings.Builder
	b.WriteString(`# Policies of queues

Every key of ` + "`rota queue set Q --set key=value`" + `, generated from [policy_keys.go](../../policy_keys.go) by
` + "`go test ./internal/tidy -run TestPolicyPage -update`" + `; ` + "`rota queue set --help`" + ` shows the same.

A duration is a whole number of milliseconds or text such as ` + "`90s`" + `. A key that ends with ` + "`_permille`" + ` or ` + "`_ppm`" + ` is a whole
number, as in JSON. Its short name accepts the ratio: ` + "`reject_threshold=0.9`" + ` is ` + "`reject_threshold_permille=900`" + `. A preset has the
values of ` + "`standard`" + ` except those in the column default, where ` + "`aicf-*`" + ` stands for both aicf-ai and aicf-quantum. Sources are sections of the [specification](../spec.md) and of the designs
that it unites ([sources](../internals/sources.md)).

|key|values|0 means|default|effect|source|
|---|---|---|---|---|---|
`)
	docs := rota.PolicyDocs()
	for i := 0; i < len(docs); i++ {
		d := docs[i]
		name := "`" + d.Key + "`"
		if d.Alias != "" {
			name = "`" + d.Alias + "`, " + name
		}
		text := "`" + d.Defaults[0] + "`"
		for i, preset := range rota.Presets {
			if d.Defaults[i] != d.Defaults[0] {
				text += ", " + preset + " `" + d.Defaults[i] + "`"
			}
		}
		if m := bothAICF.FindStringSubmatch(text); m != nil && m[1] == m[2] {
			text = strings.Replace(text, m[0], "aicf-* "+m[1], 1)
		}
		// The keys of the tiers differ by the tier alone.
		if prefix, isTier := strings.CutSuffix(d.Key, "_0"); isTier {
			d.Meaning = strings.Replace(d.Meaning, "tier 0", "that tier", 1)
			for ; i+1 < len(docs) && strings.HasPrefix(docs[i+1].Key, prefix+"_"); i++ {
				text += ", `" + docs[i+1].Defaults[0] + "`"
			}
			name += " to `" + docs[i].Key + "`"
		}
		source := ruleOfKey.ReplaceAllStringFunc(d.Source, func(cited string) string {
			return "[" + cited + "](../spec.md#" + strings.ReplaceAll(ruleNumber.FindString(cited), ".", "-") + ")"
		})
		fmt.Fprintf(&b, "|%s|%s|%s|%s|%s|%s|\n", name, shortRange(d.Values), d.Zero, text, d.Meaning, source)
	}
	return b.String()
}
