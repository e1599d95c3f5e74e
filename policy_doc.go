package rota

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// PolicyDoc documents one key of a policy.
type PolicyDoc struct {
	// Key is its name with its unit; Alias is another name, or "".
	Key   string
	Alias string
	// Meaning is a sentence. Zero is what 0 means; "" if 0 is an ordinary number or not accepted.
	Meaning string
	Zero    string
	// Values describes the values that the key accepts, with their unit; for a ratio, those under the Alias. Under Key
	// a ratio is a whole number in Unit, described by KeyValues, which is "" for other keys.
	Values, KeyValues string
	// Unit is the unit of the number under Key: ms, bytes, permille, ppm, thousandths or count; or else switch, or
	// choice (one of Choices). Least and Most are the limits of the number.
	Unit        string
	Least, Most int64
	Choices     []string
	// Defaults are the values of the presets as Set accepts them under that name, in the order of Presets; KeyDefaults
	// are those that it accepts under Key. A key without presets has one value.
	Defaults, KeyDefaults []string
	// Source is the origin of the key: a section of the specification, or one of the designs that the specification
	// combines.
	Source string
}

// PolicyDocs returns the documentation of every key, in canonical order.
func PolicyDocs() []PolicyDoc {
	docs := make([]PolicyDoc, len(policyKeys))
	for i := range policyKeys {
		k := &policyKeys[i]
		docs[i] = PolicyDoc{Key: k.name, Alias: k.alias, Meaning: k.meaning, Zero: k.zero, Values: k.values(),
			Source:    k.source,
			KeyValues: k.keyValues(), Unit: unitNames[k.unit], Least: k.min, Most: k.max, Choices: k.choices()}
		for _, preset := range Presets {
			p, _ := PresetPolicy(preset) // every one of Presets is known
			docs[i].Defaults = append(docs[i].Defaults, k.plain(&p))
			docs[i].KeyDefaults = append(docs[i].KeyDefaults, k.plainByKey(&p))
		}
	}
	return docs
}

var unitNames = [...]string{unitCount: "count", unitMs: "ms", unitBool: "switch", unitChoice: "choice",
	unitPermille: "permille", unitPPM: "ppm", unitBytes: "bytes", unitDecimal: "thousandths"}

// choices returns the words that a key accepts; nil for a numeric key.
func (k *policyKey) choices() []string {
	if k.unit == unitChoice {
		return choices(k.names)
	}
	return nil
}

// values returns the range of a key in its unit.
func (k *policyKey) values() string {
	switch k.unit {
	case unitChoice:
		return strings.Join(k.names, ", ")
	case unitBool:
		return "on, off"
	case unitMs:
		return "a duration, " + durationText(k.min) + " to " + durationText(k.max)
	case unitPermille, unitPPM:
		return fmt.Sprintf("a ratio, %s to %s", ratioText(k.min, k.scale()), ratioText(k.max, k.scale()))
	case unitDecimal:
		return formatMilli(k.min) + " to " + formatMilli(k.max)
	case unitBytes:
		return fmt.Sprintf("bytes, %d to %d", k.min, k.max)
	default:
		return fmt.Sprintf("%d to %d", k.min, k.max)
	}
}

// keyValues returns the range of a ratio under its key; "" if it is not a ratio.
func (k *policyKey) keyValues() string {
	switch k.unit {
	case unitPermille:
		return fmt.Sprintf("thousandths, %d to %d", k.min, k.max)
	case unitPPM:
		return fmt.Sprintf("millionths, %d to %d", k.min, k.max)
	default:
		return ""
	}
}

// plainByKey is plain in the form that Set accepts under the key.
func (k *policyKey) plainByKey(p *QueuePolicy) string {
	if k.scale() != 0 {
		return k.format(p)
	}
	return k.plain(p)
}

// plain returns a value in readable form.
func (k *policyKey) plain(p *QueuePolicy) string {
	v := k.get(p)
	switch {
	case v == 0 && k.zero != "":
		return "0"
	case k.unit == unitMs:
		return durationText(v)
	case k.scale() != 0:
		return ratioText(v, k.scale())
	case k.unit == unitBool && v == 1:
		return "on"
	case k.unit == unitBool:
		return "off"
	default:
		return k.format(p)
	}
}

// durationText returns a duration in its largest whole unit, in the form that Set accepts.
func durationText(ms int64) string {
	if ms == 0 {
		return "0"
	}
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if whole := unit.of.Milliseconds(); ms >= whole && ms%whole == 0 {
			return strconv.FormatInt(ms/whole, 10) + unit.name
		}
	}
	return strconv.FormatInt(ms, 10) + "ms"
}

// Backfill determines which jobs may start before the first job of a queue if that job finds no room (SPEC §26.3).
type Backfill uint8

// The ways of backfilling.
const (
	// BackfillFree starts any job that fits; holds (SPEC §7.8) limit this.
	BackfillFree Backfill = iota
	// BackfillNone lets nothing of the queue start before its first job does.
	BackfillNone
	// BackfillEasy reserves room for the first job at the earliest possible time, and starts other jobs if they do not
	// delay it.
	BackfillEasy
	// BackfillConservative reserves room for each pending job, and starts other jobs if they delay none of those before
	// them.
	BackfillConservative
)

var backfillNames = []string{"free", "none", "easy", "conservative"}

// String names it as the policy key does.
func (b Backfill) String() string { return nameOf(backfillNames, int(b)) }

// BackfillOrder is the order of the jobs that may be backfilled.
type BackfillOrder uint8

// The orders of backfilling.
const (
	// BackfillByRank looks at them in the order of the queue's ranking.
	BackfillByRank BackfillOrder = iota
	// BackfillShortest considers jobs with the smallest estimate first.
	BackfillShortest
)

var backfillOrderNames = []string{"rank", "shortest"}

// String names it as the policy key does.
func (o BackfillOrder) String() string { return nameOf(backfillOrderNames, int(o)) }

// backfillKeys are the keys of batch scheduling.
var backfillKeys = []policyKey{
	key("shortest_aging", "", unitCount, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.ShortestAging },
		"SPEC §26.2", "ranking=shortest or smallest: a job that has waited this many times its estimate, or its share of it, precedes later submissions.").off("estimates alone order"),
	choiceKey("backfill", backfillNames, func(p *QueuePolicy) *Backfill { return &p.Backfill },
		"SPEC §26.3", "Which jobs may pass the first job that finds no room: all that fit, none, those that do not delay it, or those that delay no earlier job. Not with ranking=adaptive."),
	choiceKey("backfill_order", backfillOrderNames, func(p *QueuePolicy) *BackfillOrder { return &p.BackfillOrder },
		"SPEC §26.3", "backfill=easy: the order in which jobs that may pass are tried."),
	key("backfill_depth", "", unitCount, 1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.BackfillDepth },
		"SPEC §26.3", "Maximum jobs that a round examines that have room but may have to leave it to a job for which room is kept."),
}

// checkBackfill rejects backfilling together with an order of jobs that is not stable.
func (p *QueuePolicy) checkBackfill() error {
	if p.Backfill != BackfillFree && p.Ranking == RankAdaptive {
		return Refusef(KindInvalid, "backfill",
			"backfill=%s does not work with ranking=%s, whose order changes every round: "+
				"use another ranking, or backfill=free", p.Backfill, p.Ranking)
	}
	return nil
}

// MarshalJSON shows the preset and every key under its name.
func (p QueuePolicy) MarshalJSON() ([]byte, error) {
	out := []byte(`{"preset":` + strconv.Quote(p.Preset))
	for i := range policyKeys {
		k := &policyKeys[i]
		v := k.format(&p)
		if k.unit == unitChoice {
			v = strconv.Quote(v)
		}
		out = append(out, `,"`+k.name+`":`+v...)
	}
	return append(out, '}'), nil
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (p *QueuePolicy) UnmarshalJSON(text []byte) error {
	var m map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // a float64 would change what is beyond 2⁵³
	if err := d.Decode(&m); err != nil {
		return err
	}
	*p = StandardPolicy()
	for i := range policyKeys {
		v, ok := m[policyKeys[i].name]
		if !ok {
			continue
		}
		if err := p.Set(Setting{policyKeys[i].name, fmt.Sprint(v)}); err != nil {
			return err
		}
	}
	if s, ok := m["preset"].(string); ok {
		p.Preset = s
	}
	return nil
}
