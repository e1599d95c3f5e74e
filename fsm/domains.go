package fsm

// takeDomain counts an assignment against an isolated domain's bucket (SPEC §4.8).
func (m *Machine) takeDomain(l *leaseRow) {}

// countDomain counts an outcome in the job's failure domain.
func (m *Machine) countDomain(l *leaseRow, what outcome) {}

// fireDomain looks again at a domain whose window or bucket changes now.
func (m *Machine) fireDomain(key string) {}

// domains checks what is derived of the domains. Invariant I9.
func (c *checker) domains() {}
