package shard

// A Member is a worker whose contributions a round needs.
type Member struct {
	Node uint64
	Rank uint32
	// Group is 1 + the lowest rank among the members whose contributions are added up before
	// their sum is added to the others': those of one host. 0: it is in no group. Groups, and
	// members without one, are added in the order of these ranks. In wire.ModeAnyOrder groups
	// do not matter.
	Group uint32
	// From is the first round that needs this member; earlier rounds close without it. Zero: the
	// open round is. Servers leave it 0.
	From uint64
}

// A member is the shard's state of one worker. It outlives generations: a worker that stays keeps
// its member, one that leaves and returns gets a new one.
type member struct {
	Member
	// lastSeq is the highest sequence number in a closed round; in async mode, the highest that
	// was applied. A push with a number up to it is a repetition, whatever it contains.
	lastSeq uint64
	// known says that lastSeq is exact. In async mode the next contribution must then be its
	// successor; otherwise (after a Load) any number is accepted once.
	known bool
	// examples is the sum of the examples that its contributions counted.
	examples uint64
	// caught is the number of its contributions that the guard refused or clipped.
	caught uint64
	// async is the state that only async mode has. Nil means all zeros.
	async *asyncMember
}

// An asyncMember is the state of a worker that only async mode has.
type asyncMember struct {
	// base is the number of contributions with which a worker that joins late begins: as many
	// as the slowest member had, so that no worker waits for those that it has missed.
	base      uint64
	staleness staleness
	// newest is, under the average rule, the worker's newest contribution, decoded, with its
	// weight.
	newest       *Buffer
	newestWeight float32
}

// asynchronous returns the member's state of async mode, which may be changed.
func (m *member) asynchronous() *asyncMember {
	if m.async == nil {
		m.async = &asyncMember{}
	}
	return m.async
}

// newest returns the member's newest contribution, or nil.
func (m *member) newest() *Buffer {
	if m.async == nil {
		return nil
	}
	return m.async.newest
}

// keepNewest makes a payload of n values, whose memory it takes, the member's newest contribution.
func (m *member) keepNewest(pool *Pool, n int, p *payload, weight float32) {
	a := m.asynchronous()
	if a.newest == nil {
		a.newest = pool.Get(4 * n)
	}
	p.decodeTo(a.newest.Float32s(n))
	p.data.Release()
	a.newestWeight = weight
}

// dropNewest frees the newest contribution.
func (m *member) dropNewest() {
	if m.async != nil {
		m.async.newest.Release()
		m.async.newest = nil
	}
}

// base returns asyncMember's base.
func (m *member) base() uint64 {
	if m.async == nil {
		return 0
	}
	return m.async.base
}

func (m *member) setBase(n uint64) {
	if n != m.base() {
		m.asynchronous().base = n
	}
}

// progress is the number of a member's contributions, plus base for one that joined late.
func (m *member) progress() uint64 { return m.base() + m.lastSeq }
