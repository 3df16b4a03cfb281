package shard

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A sum is the sum of the open round's contributions that are next in order. It knows no members,
// no rounds and no optimizer; who calls add decides the order.
//
// The order is what makes a run repeat bit for bit: single contributions are added to the sum
// itself, those of a host first to a sum of their own, which is added when the next group begins.
// The first contribution is not added but becomes the sum, in its own memory.
type sum struct {
	cfg *Config
	// partialSum is of a dense shard; rows is of a shard of rows, nil before the first one.
	partialSum
	// host is the sum of the group that is being added up. It is made when first needed.
	host *hostSum
	rows *rowSum
	// norms is nil while no round has been measured.
	norms *norms
	// lending is nil while no contribution was lent.
	lending *lending
	// weight is the sum of the weights.
	weight float64
	// divided says that the sum is the mean of the round already.
	divided bool
	fate    sumFate
}

// A sumFate says what becomes of the value when the sum is applied.
type sumFate uint8

const (
	// sumCounts: the sum changes the value.
	sumCounts sumFate = iota
	// sumRefused: the guard has refused a contribution. If none is left the value stays.
	sumRefused
	// sumKeepsValue: no contribution is left, so the round closes and the value does not
	// change.
	sumKeepsValue
)

// A partialSum is the sum of some contributions.
type partialSum struct {
	// data is nil before the first contribution.
	data *Buffer
}

// take makes a contribution's values the sum; those of wire.CodecFloat32 stay where they are.
func (t *partialSum) take(pool *Pool, n int, p *payload) {
	if p.codec == wire.CodecFloat32 {
		t.data = p.data
		return
	}
	t.data = pool.Get(4 * n)
	p.decodeTo(t.data.Float32s(n))
	p.data.Release()
}

// add adds a contribution's values and releases its memory.
func (t *partialSum) add(pool *Pool, n int, p *payload) {
	p.addTo(t.data.Float32s(n), pool)
	p.data.Release()
}

// A hostSum is the sum of the contributions of one group, which are not in the sum yet.
type hostSum struct {
	partialSum
	group uint32
}

func (h *hostSum) begun() bool { return h != nil && h.data != nil }

// An addition says how contributions are added.
type addition struct {
	// anyOrder is wire.ModeAnyOrder, in which groups do not matter.
	anyOrder bool
	// last says that no other contribution is expected, and closes that the round closes at
	// once, too.
	last, closes bool
	// over is by what measured gradients are divided before they are squared.
	over f32.Precondition
	// rows is the number of rows that a shard of rows has now.
	rows int
	// fuse says that the round closes at once, with an optimizer that can add the last
	// contribution, and take its squares, in its own pass.
	fuse bool
}

// values returns the numbers of the sum.
func (t *sum) values() []float32 { return t.data.Float32s(t.cfg.values()) }

// begun reports whether anything has been added.
func (t *sum) begun() bool { return t.data != nil || t.host.begun() }

// measured returns the norms, which it makes first if need be.
func (t *sum) measured() *norms {
	if t.norms == nil {
		t.norms = &norms{}
	}
	return t.norms
}

// setNorms sets the norms of the newest round.
func (t *sum) setNorms(n wire.Norms) {
	if t.norms != nil || n != (wire.Norms{}) {
		t.measured().newest = n
	}
}

// add adds one contribution, whose memory it takes: to its group's sum, or to the sum.
func (t *sum) add(x *slot, a *addition) {
	p := x.payload
	x.payload = payload{}
	if x.verdict.refused() {
		t.fate = sumRefused
		return
	}
	t.weight += float64(x.weight)
	if t.cfg.HasRows() {
		t.rowSum().add(&p, int(t.cfg.RowLen), a.rows)
		return
	}
	n := t.cfg.values()
	if n == 0 {
		p.data.Release()
		return
	}
	measured := t.measures(x)
	into, grouped := &t.partialSum, x.group != 0 && !a.anyOrder
	if grouped {
		// Its group is added to the sum after it.
		into, a.last = t.hostOf(x.group), false
	}
	switch {
	case x.elsewhere && measured:
		t.norms.tally(x, a.over.Variance != nil)
	case x.elsewhere:
	case measured:
		own := t.norms.tally(x, a.over.Variance != nil)
		t.addMeasured(into, t.norms.firstOf(grouped), &p, own, float64(x.weight), a)
	case into.data != nil && a.closes && a.last && t.weight > 0 && t.cfg.Rule == wire.RuleAverage && p.codec == wire.CodecFloat32:
		t.addDivided(&p)
	case into.data != nil:
		into.add(t.cfg.Pool, n, &p)
	default:
		into.take(t.cfg.Pool, n, &p)
	}
}

// measures reports whether the norms of a contribution that is about to be added are measured.
func (t *sum) measures(x *slot) bool {
	begun := t.begun()
	if t.norms == nil && (!x.measure || begun) {
		return false
	}
	return t.measured().addition(x.measure, begun)
}

// hostOf returns the sum of a group's contributions.
func (t *sum) hostOf(group uint32) *partialSum {
	if t.host == nil {
		t.host = &hostSum{}
	}
	t.host.group = group
	return &t.host.partialSum
}

// addHost adds the sum of a group to the sum, if there is one.
func (t *sum) addHost(a *addition) {
	if !t.host.begun() {
		return
	}
	p := payload{data: t.host.data}
	*t.host = hostSum{}
	n := t.norms
	switch {
	case t.data == nil:
		t.data = p.data
		if n != nil {
			n.first, n.hostFirst = n.hostFirst, deferredSquares{}
		}
	case n.on():
		own := n.hostFirst
		n.hostFirst = deferredSquares{}
		t.addMeasured(&t.partialSum, &n.first, &p, own.due, own.weight, a)
	default:
		t.partialSum.add(t.cfg.Pool, t.cfg.values(), &p)
	}
}

// addMeasured adds a payload to the sum, or to a host's part of it, and takes squares on the way:
// the payload's if own, and those of the sum's first contribution. The last payload of a round may
// be left to the optimizer's update.
func (t *sum) addMeasured(into *partialSum, first *deferredSquares, p *payload, own bool, weight float64, a *addition) {
	n, length := t.norms, t.cfg.values()
	if into.data == nil {
		into.take(t.cfg.Pool, length, p)
		*first = deferredSquares{due: own, weight: weight}
		return
	}
	n.own, n.ownWeight, n.totalKnown = own, weight, a.last
	if a.last && a.fuse && n.count > 1 && p.codec == wire.CodecFloat32 {
		n.last = p.data
		return
	}
	squares := &n.squares
	*squares = f32.AddSquares{}
	p.addToMeasured(into.data.Float32s(length), t.cfg.Pool, a.over, squares, first.due, a.last)
	p.data.Release()
	n.take(first, optim.Squares{Before: squares.Before.Total(), Added: squares.Added.Total(), After: squares.After.Total()})
}

// divide makes the sum a mean, unless it is one.
func (t *sum) divide() {
	if !t.divided && t.weight != 1 {
		f32.Divide(t.values(), float32(t.weight), t.values())
	}
}

// addDivided adds the last contribution, whose memory it releases, and makes the sum a mean while
// it is in the cache.
func (t *sum) addDivided(p *payload) {
	total, values := t.values(), p.data.Float32s(t.cfg.values())
	for from := 0; from < len(total); from += lentPart {
		to := min(from+lentPart, len(total))
		part := total[from:to]
		f32.AddTo(part, values[from:to])
		f32.Divide(part, float32(t.weight), part)
	}
	p.data.Release()
	t.divided = true
}

// takeData takes the sum's memory away from it.
func (t *sum) takeData() *Buffer {
	data := t.data
	t.data = nil
	return data
}

// addNewest makes a payload, whose memory it takes, the newest contribution of a member, and the
// sum the sum of all members' newest contributions: the average rule in async mode. It is added up
// anew each time; taking an old contribution off a sum would leave rounding errors behind.
func (t *sum) addNewest(m *member, p *payload, weight float32, members []*member) {
	n := t.cfg.values()
	if n == 0 {
		p.data.Release()
		return
	}
	m.keepNewest(t.cfg.Pool, n, p, weight)
	t.data = t.cfg.Pool.Get(4 * n)
	total := t.values()
	clear(total)
	for _, o := range members {
		if newest := o.newest(); newest != nil {
			f32.AddTo(total, newest.Float32s(n))
			t.weight += float64(o.async.newestWeight)
		}
	}
}

// keep keeps the sum of the round that is being applied as number step, for the norms of the next.
// shared says that a backup needs the sum, too; without data the sum has become the value. In both
// cases a copy is kept.
func (t *sum) keep(step uint64, shared bool, value []float32) {
	k := &t.norms.kept
	k.drop()
	k.round, k.weight = step, t.weight
	if t.data != nil && !shared {
		k.data = t.takeData()
		return
	}
	n := t.cfg.values()
	if t.data != nil {
		value = t.values()
	}
	k.data = t.cfg.Pool.Get(4 * n)
	copy(k.data.Float32s(n), value)
}

// reset empties the sum.
func (t *sum) reset() {
	t.data.Release()
	t.data = nil
	if t.host != nil {
		t.host.data.Release()
		*t.host = hostSum{}
	}
	t.weight, t.divided, t.fate = 0, false, sumCounts
	t.rows.reset()
	if t.lending != nil {
		t.lending.claimed = nil
	}
	t.norms.reset()
}

// rowSum returns the sum of a shard of rows, which it makes first if need be.
func (t *sum) rowSum() *rowSum {
	if t.rows == nil {
		t.rows = &rowSum{}
	}
	return t.rows
}

// rowTotal returns the rows that the round touches, and their sums.
func (t *sum) rowTotal() (rows []int64, values []float32) {
	return t.rowSum().total(int(t.cfg.RowLen))
}
