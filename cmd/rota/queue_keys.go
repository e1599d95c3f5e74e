package main

import (
	"fmt"
	"strings"

	"github.com/rotasched/rota"
)

// keysHelp tells of every key of a policy: its values, what 0 means, its defaults,
// and what it does.
func keysHelp() string {
	var b strings.Builder
	for _, d := range rota.PolicyDocs() {
		name := d.Key
		if d.Alias != "" {
			name = d.Alias + ", " + d.Key
		}
		values := d.Values
		if d.Zero != "" {
			values += "; 0: " + d.Zero
		}
		fmt.Fprintf(&b, "  %s (%s)\n      default %s\n      %s\n", name, values, defaultsText(d), d.Meaning)
	}
	return strings.TrimRight(b.String(), "\n")
}

// defaultsText is the default of standard, then those of the presets that differ.
func defaultsText(d rota.PolicyDoc) string {
	text := d.Defaults[0]
	for i, preset := range rota.Presets {
		if d.Defaults[i] != d.Defaults[0] {
			text += ", " + preset + " " + d.Defaults[i]
		}
	}
	return text
}
