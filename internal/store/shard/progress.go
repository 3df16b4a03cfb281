package shard

// A progress is how far a shard has come, and decides by that which readers may have its value. It
// is made for one question and not kept.
type progress struct {
	members *membership
	// rounds is the number of closed rounds.
	rounds uint64
	async  bool
	// hidden says that the value contains a round that the backup does not have yet. No one may
	// see it: if this server were lost now, that round would be made again, perhaps otherwise.
	hidden bool
	// held says that the open round's sum is whole, and waits for a Decision or for the backup.
	held bool
}

// has reports whether the value satisfies want. In async mode a node that is not a member waits for
// nothing of its own: it has contributed nothing here, and may have been a member before.
func (p *progress) has(want *Want) bool {
	if want.Clip {
		return p.rounds > want.Round || p.rounds == want.Round && p.held
	}
	if p.hidden {
		return false
	}
	if !p.async {
		return p.rounds >= want.Round
	}
	if m := p.members.of(want.Node); m != nil && m.lastSeq < want.Seq {
		return false
	}
	if want.Staleness == NoBound {
		return true
	}
	for _, m := range p.members.ranked {
		if p.late(m, want) {
			return false
		}
	}
	return true
}

// late reports whether want waits for m, which is not the worker that asks. Both are compared by
// their progress, so that a worker that joined late is not waited for.
func (p *progress) late(m *member, want *Want) bool {
	made := want.Seq
	if asks := p.members.of(want.Node); asks != nil {
		made += asks.base()
	}
	return m.Node != want.Node && want.Staleness != NoBound && m.progress() < made && made-m.progress() > want.Staleness
}

// laggards returns the members that want waits for, in rank order; open is the open round.
func (p *progress) laggards(want *Want, open *round) (list []Laggard) {
	if p.has(want) {
		return nil
	}
	for _, m := range p.members.ranked {
		if p.async {
			if m.Node == want.Node && m.lastSeq < want.Seq || p.late(m, want) {
				list = append(list, Laggard{Node: m.Node, Rank: m.Rank, Done: m.lastSeq})
			}
			continue
		}
		if slot := open.find(m); slot != nil && slot.seq == 0 {
			list = append(list, Laggard{Node: m.Node, Rank: m.Rank, Done: p.rounds})
		}
	}
	return list
}
