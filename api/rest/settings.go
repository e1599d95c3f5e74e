package rest

// PolicyKeys are the keys of settings.
type PolicyKeys struct {
	// Presets are their names, in their order.
	Presets []string `json:"presets"`
	// Queue are the keys of a queue's policy, in its canonical order.
	Queue []PolicyKey `json:"queue"`
	// Tenant are the keys of a tenant's limits, Cluster those of the cluster's own settings.
	Tenant  []PolicyKey `json:"tenant"`
	Cluster []PolicyKey `json:"cluster"`
}

// PolicyKey is a key of a queue's policy, of a tenant or of the cluster.
type PolicyKey struct {
	Key string `json:"key"`
	// Alias is another name of it, without the unit; of a number of permille or ppm the one that
	// takes a ratio instead.
	Alias string `json:"alias,omitempty"`
	// Sentence says what it does, Zero what 0 means where that is not just a number.
	Sentence string `json:"sentence"`
	Zero     string `json:"zero,omitempty"`
	// Values says in words what it takes under Key, AliasValues under Alias where that is
	// something else.
	Values      string `json:"values"`
	AliasValues string `json:"alias_values,omitempty"`
	// Unit is ms, bytes, permille, ppm, thousandths, count, switch, or choice of one of Choices.
	Unit string `json:"unit"`
	// Least and Most bound the number, in that unit.
	Least   int64    `json:"least"`
	Most    int64    `json:"most"`
	Choices []string `json:"choices,omitempty"`
	// Default is the value where nobody set one, as a call that sets takes it under Key.
	Default string `json:"default"`
	// Presets has its value in each preset, as Default has it; tenants and the cluster have none.
	Presets map[string]string `json:"presets,omitempty"`
}
