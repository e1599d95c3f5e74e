package rest

// PolicyKeys are the keys of settings.
type PolicyKeys struct {
	// Presets are their names, in their order.
	Presets []string `json:"presets"`
	// Queue are the keys of a queue's policy, in its canonical order.
	Queue []PolicyKey `json:"queue"`
}

// PolicyKey is a key of a queue's policy.
type PolicyKey struct {
	Key string `json:"key"`
	// Alias is another name of it, in another unit where it is a ratio or a duration.
	Alias string `json:"alias,omitempty"`
	// Sentence says what it does, Zero what 0 means where that is not just a number.
	Sentence string `json:"sentence"`
	Zero     string `json:"zero,omitempty"`
	// Values says in words what it takes.
	Values string `json:"values"`
	// Unit is ms, bytes, permille, ppm, thousandths, count, switch, or choice of one of Choices.
	Unit string `json:"unit"`
	// Least and Most bound the number.
	Least   int64    `json:"least"`
	Most    int64    `json:"most"`
	Choices []string `json:"choices,omitempty"`
	// Presets has its value in each preset, as Set takes it under Alias, or Key where there is none.
	Presets map[string]string `json:"presets"`
}
