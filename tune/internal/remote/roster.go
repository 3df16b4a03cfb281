package remote

// A roster knows which ranks of a trial are there, and how those ended that no longer are. A
// session's mutex guards it.
type roster struct {
	// joined are the ranks that have ever connected, and present those that are connected now.
	joined, present map[int]bool
	// left says how those ended that are not present any more, or are about to leave.
	left map[int]Done
	// through are the ranks that nobody waits for any more: they have said how they ended, or
	// their connection closed too long ago.
	through map[int]bool
}

func newRoster() roster {
	return roster{joined: make(map[int]bool), present: make(map[int]bool), left: make(map[int]Done), through: make(map[int]bool)}
}

// join takes note of a rank that has connected. It returns false for one that is there already, and
// for one that was, unless another process may take its place.
func (r *roster) join(rank int, replaces bool) bool {
	if r.present[rank] || r.joined[rank] && !replaces {
		return false
	}
	r.joined[rank], r.present[rank] = true, true
	delete(r.left, rank)
	return true
}

// leave takes note of a rank whose connection has closed. It returns false if the rank had not said
// how it ended.
func (r *roster) leave(rank int) (said bool) {
	delete(r.present, rank)
	if _, said = r.left[rank]; !said {
		r.left[rank] = Done{Error: "its connection closed before it reported its end"}
	}
	return said
}

// ended says whether a rank has said how it ended, or its connection has closed.
func (r *roster) ended(rank int) bool {
	_, ended := r.left[rank]
	return ended
}

// first is the lowest rank that is connected, or -1. Where workers come and go it stands for rank
// 0: those that came later have higher numbers.
func (r *roster) first() int {
	first := -1
	for rank := range r.present {
		if first < 0 || rank < first {
			first = rank
		}
	}
	return first
}

// isAlone says whether no other rank of a leader's host is connected.
func (r *roster) isAlone(leader int, leaderOf func(rank int) int) bool {
	for rank := range r.present {
		if rank != leader && leaderOf(rank) == leader {
			return false
		}
	}
	return true
}
