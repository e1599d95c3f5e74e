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

// Problem is the error of a call, or of an item of one (RFC 9457).
type Problem struct {
	// Type is the URN urn:rota:error: followed by the kind.
	Type string `json:"type"`
	// Title is a general description of the kind of error.
	Title string `json:"title"`
	// Status is the HTTP status code.
	Status int `json:"status"`
	// Detail describes what was refused, the value, the limit, and what to do next.
	Detail string `json:"detail"`
	// Kind determines what the caller can do about the error: INVALID, NOT_FOUND, CONFLICT, STALE, MODE, EXHAUSTED,
	// UNAVAILABLE, TIMEOUT, OUT_OF_RANGE, DENIED, INTERNAL or UNAUTHENTICATED.
	Kind string `json:"kind"`
	// Op is the verb that refused.
	Op string `json:"op,omitempty"`
	// Field is the field, parameter or id that was refused.
	Field string `json:"field,omitempty"`
	// RetryAfterMs is how long to wait before repeating the call.
	RetryAfterMs int64 `json:"retry_after_ms,omitempty"`
}
