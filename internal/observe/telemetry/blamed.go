package telemetry

func (b *Blame) add(rounds uint64, seconds float64) {
	b.Rounds += rounds
	b.Seconds += seconds
}

// addBlames adds what a server's record says of workers that this History knows. Of a worker that
// an earlier record did not have, all is new if that record had all workers with any blame; else it
// is not known when it was charged. The server's first record says nothing of the time either.
func (h *History) addBlames(server *past, blames []Blame, isNew bool) {
	partial := len(blames) >= MaxBlames
	for _, b := range blames {
		p := h.nodes[b.Node]
		if p == nil {
			partial = true
			continue
		}
		if server.charged == nil {
			server.charged = make(map[uint64]Blame)
		}
		before, known := server.charged[b.Node]
		if b.Rounds < before.Rounds || b.Seconds < before.Seconds {
			continue
		}
		server.charged[b.Node] = b
		rounds, seconds := b.Rounds-before.Rounds, b.Seconds-before.Seconds
		p.blamed.all.add(rounds, seconds)
		if known || !isNew && !server.partial {
			p.blamed.timed.add(rounds, seconds)
		}
	}
	server.partial = partial
}

// Blamed is what all servers have charged a worker with since their begin.
func (h *History) Blamed(node uint64) (rounds uint64, seconds float64) {
	if p := h.nodes[node]; p != nil {
		return p.blamed.all.Rounds, p.blamed.all.Seconds
	}
	return 0, 0
}

// Charged is Blamed without what servers may have charged before this History knew them: its growth
// is what was charged meanwhile.
func (h *History) Charged(node uint64) (rounds uint64, seconds float64) {
	if p := h.nodes[node]; p != nil {
		return p.blamed.timed.Rounds, p.blamed.timed.Seconds
	}
	return 0, 0
}
