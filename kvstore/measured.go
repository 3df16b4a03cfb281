package kvstore

// A measured tells the program what came with the values that this worker has pulled. Of a key that
// this worker has not initialised it tells zeros.
type measured struct {
	keys *keyTable
}

func (m *measured) of(name string) *answers {
	if k := m.keys.get(name); k != nil {
		return &k.answers
	}
	return new(answers)
}

// Staleness says how old the value was that was pulled last.
func (m *measured) Staleness(name string) Staleness { return m.of(name).newest() }

// Caught returns how many contributions the guard has refused or clipped.
func (m *measured) Caught(name string) uint64 { return m.of(name).caughtInAll() }

// RoundWeight returns the weight of the newest round.
func (m *measured) RoundWeight(name string) float64 {
	weight, _ := m.of(name).newestRound()
	return weight
}

// RoundExamples returns the examples of the newest round.
func (m *measured) RoundExamples(name string) uint64 {
	_, examples := m.of(name).newestRound()
	return examples
}

// Norms returns what the servers measured of the newest round.
func (m *measured) Norms(name string) (Norms, bool) { return m.of(name).newestNorms() }
