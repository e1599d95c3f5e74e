package rest

// PolicyKeys are the keys of settings.
type PolicyKeys struct {
	// Presets are the names of the presets, in order.
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
	// Alias is the name of the key without the unit; for permille and ppm it accepts a ratio.
	Alias string `json:"alias,omitempty"`
	// Sentence describes the key; Zero is what 0 means if it is not an ordinary number.
	Sentence string `json:"sentence"`
	Zero     string `json:"zero,omitempty"`
	// Values describes the values accepted under Key; AliasValues those accepted under Alias, if different.
	Values      string `json:"values"`
	AliasValues string `json:"alias_values,omitempty"`
	// Unit is the unit: ms, bytes, permille, ppm, thousandths, count, switch, or choice of one of Choices.
	Unit string `json:"unit"`
	// Least and Most are the limits of the number, in that unit.
	Least   int64    `json:"least"`
	Most    int64    `json:"most"`
	Choices []string `json:"choices,omitempty"`
	// Default is the value if none is set, in the form that a call accepts under Key.
	Default string `json:"default"`
	// Presets has the value in each preset, in the same form as Default; tenants and the cluster have no presets.
	Presets map[string]string `json:"presets,omitempty"`
}
