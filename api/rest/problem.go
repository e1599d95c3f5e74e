package rest

// ProblemType is the media type of a [Problem].
const ProblemType = "application/problem+json"

// ProblemURN begins the type of a problem; the kind of the error ends it.
const ProblemURN = "urn:rota:error:"

// A stream that ends before all was sent ends with one of these, and a [Problem]: the node goes,
// or whatever else it is. As server-sent events they are the names of the last event, in lines
// of JSON the one field of the last line.
const (
	StreamGoing = "going"
	StreamEnded = "ended"
)

// Problem says how a call, or an item of one, was refused (RFC 9457).
type Problem struct {
	// Type is urn:rota:error: and the kind.
	Type string `json:"type"`
	// Title says in general what is wrong with calls that are refused so.
	Title string `json:"title"`
	// Status is the status code of HTTP.
	Status int `json:"status"`
	// Detail says what was refused, which value, which limit, and what to do next.
	Detail string `json:"detail"`
	// Kind is what the caller can do about it: INVALID, NOT_FOUND, CONFLICT, STALE, MODE,
	// EXHAUSTED, UNAVAILABLE, TIMEOUT, OUT_OF_RANGE, DENIED, INTERNAL or UNAUTHENTICATED.
	Kind string `json:"kind"`
	// Op is the verb that refused.
	Op string `json:"op,omitempty"`
	// Field is the field, parameter or id that was refused.
	Field string `json:"field,omitempty"`
	// RetryAfterMs is how long to wait before the same call is made again.
	RetryAfterMs int64 `json:"retry_after_ms,omitempty"`
}
