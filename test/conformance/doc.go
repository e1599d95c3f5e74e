// Package conformance runs the clients of all languages through the same scenarios: three real nodes, a driver for each
// language, and the cluster's record of what happened.
//
// A scenario is a file of scenarios/. Each runs twice, once as it is written and once with the leader killed at the
// given step, and promises the same both times.
//
// A driver is a program of at most 330 lines that uses only the public API of its client. It reads requests from stdin,
// a JSON object a line, and answers them on stdout, in any order:
//
//	→ {"n":1,"do":"connect","addrs":"127.0.0.1:6470,127.0.0.1:6471"}
//	← {"n":1,"ok":{}}
//	→ {"n":2,"do":"submit","jobs":[{"id":"j","queue":"q","type":"echo","payload":{"a":1}}]}
//	← {"n":2,"ok":{"outcomes":[{"id":"j","existed":false,"holder":""},{"id":"k","error":"INVALID"}]}}
//	→ {"n":3,"do":"worker","name":"w","queues":["q"],"slots":4}
//	← {"n":3,"ok":{}}                                      once it has started
//	→ {"n":4,"do":"wait","id":"j","type":"echo"}
//	← {"n":4,"ok":{"state":"COMPLETED","output":{"a":1}}}  or {"state":"DEAD","error":"…"}
//	→ {"n":5,"do":"cancel","id":"j"}                       so are retry, delete, run_now, interrupt with "counted", change with "priority"
//	→ {"n":6,"do":"drain","name":"w"}                      answered once the worker has ended
//	→ {"n":7,"do":"release","id":"j"}                      ends the sleep of this job's handlers, now and later
//	← {"n":6,"error":"NOT_FOUND"}                          the kind of the client's error
//
// A job has id, queue, type, payload (any JSON value, encoded by the client) or bytes (base64, sent unchanged), and
// optionally delay_ms, max_runtime_ms, attempts, keys (name: value), unique ({"key","on_conflict"}) and headers (name:
// value).
//
// Without a request, a driver reports events of its handlers:
//
//	← {"on":"started","worker":"w","job":"j","token":"1.7"}
//	← {"on":"lost","worker":"w","job":"j","token":"1.7"}   the handler learned that it must stop
//	← {"on":"ended","worker":"w","job":"j","token":"1.7"}  the handler returned
//
// Three types have handlers. echo returns its payload, through the types of the language. bytes returns the bytes that
// it gets. script follows its payload: the n-th call of this job in this process does the n-th step, and later calls do
// the last one:
//
//	{"calls":[{"do":"snooze","ms":300},{"do":"return","value":"done"}]}
//
//	return   returns value            retry_after  fails with error, to be tried again in ms
//	sleep    waits ms, returns value  snooze       delays the job by ms, uncounted
//	block    blocks the thread of     no_retry     fails with error for good
//	         handlers for ms          cancel       cancels the job with error
//	fail     fails with error         progress     reports percent and note, then sleeps ms
//	log      logs error as a line     parents      returns {node: output} of its parents
//	headers  returns the headers      token        returns the token as text
//
// A driver whose stdin ends returns no leases and exits.
//
// It never asks a driver how a job ended: only the cluster's record counts.
package conformance
