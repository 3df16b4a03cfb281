package shard

import (
	"errors"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A Counted is one contribution that a round counts.
type Counted struct {
	Node   uint64
	Seq    uint64
	Weight float32
	Counts bool // the Examples, as Contribution.Counted says
	// The guard's findings.
	Norm     float64
	Verdict  uint8
	Examples uint64
}

// A Record replicates one closed round to the shard's backup. It holds the sum of the
// contributions, or the new value, so that the backup's value becomes the same bit for bit.
type Record struct {
	Round      uint64  // its number
	Generation uint64  // under which it closed
	Form       uint8   // form of the data, a wire.Record constant
	Rows       int     // rows in data, for wire.RecordRows
	Weight     float64 // sum of the weights
	Rate       wire.RoundRate
	Norms      wire.Norms
	Keep       bool // the backup keeps the sum, too: see keptSum
	// Config is the JSON of the optimizer that was applied (empty: none), if Configured.
	// Otherwise it is the optimizer of the record before.
	Configured bool
	Config     string
	Counts     []Counted

	data    *Buffer // the sum, rows, or a copy
	version *Version
	size    int // bytes of the data
	lent    bool
}

// examples is how many examples the round's value is of: those of contributions that the guard has
// not refused.
func (r *Record) examples() (sum uint64) {
	for _, c := range r.Counts {
		if !verdict(c.Verdict).refused() {
			sum += c.Examples
		}
	}
	return sum
}

// Bytes returns the data as it is sent. It is valid until Commit.
func (r *Record) Bytes() []byte {
	switch {
	case r.version != nil:
		return r.version.Bytes()
	case r.data != nil:
		return r.data.Bytes(r.size)
	}
	return nil
}

// SetClosed sets a function that is called, under the shard's mutex, when there is a closed round
// to replicate; Lend returns it.
func (s *Shard) SetClosed(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backupMemory().closed = f
}

// A backupState is what a primary knows about its shard's backup.
type backupState struct {
	closed        func()
	inSync        bool    // the backup has the whole state: a round's value is shown only after the backup has the round
	filling       bool    // the state is being copied to the backup: no round closes meanwhile
	stale         bool    // the state was replaced (a Load) after the copy to the backup began
	pending       *Record // closed, and not yet acknowledged by the backup; the next round closes only after that
	spare         *Record
	sentOptimizer *optim.Optimizer // the optimizer that the backup was last sent
	nothingSent   bool             // the backup has been sent no optimizer yet
	newest        []*member        // while the state is copied: the members whose newest contributions are part of it
}

func (s *Shard) backupMemory() *backupState {
	if s.backup == nil {
		s.backup = &backupState{}
	}
	return s.backup
}

func (b *backupState) isInSync() bool  { return b != nil && b.inSync }
func (b *backupState) isFilling() bool { return b != nil && b.filling }
func (b *backupState) isStale() bool   { return b != nil && b.stale }

func (b *backupState) unacknowledged() *Record {
	if b == nil {
		return nil
	}
	return b.pending
}

func (b *backupState) newestOf() []*member {
	if b == nil {
		return nil
	}
	return b.newest
}

// ErrAgain: since the caller's wait another round has closed, which the backup does not have yet.
// Wait again.
var ErrAgain = errors.New("shard: a round has closed meanwhile: wait again")

// awaitsBackup reports whether the value must not be shown, because it contains a round that the
// backup does not have. In async mode a value that is being copied is not shown either, so that a
// contribution that comes too early can wait for the end of the copy.
func (s *Shard) awaitsBackup() bool {
	return s.backup.unacknowledged() != nil || s.async() && s.backup.isFilling()
}

// roundsBlocked reports whether no round may close.
func (s *Shard) roundsBlocked() bool { return s.backup.unacknowledged() != nil || s.backup.isFilling() }

// recordRound makes a Record of the sum that was just applied as round number step. It takes the
// sum's memory.
func (s *Shard) recordRound(step uint64) {
	b := s.backup
	r := b.spare
	if b.spare = nil; r == nil {
		r = &Record{}
	}
	*r = Record{Round: step, Generation: s.generation, Weight: s.sum.weight, Form: wire.RecordNone, Counts: r.Counts[:0],
		Rate: s.open.learningRate(), Norms: s.norms(), Keep: s.keepsSum()}
	if b.nothingSent || b.sentOptimizer != s.opt {
		r.Configured, b.sentOptimizer, b.nothingSent = true, s.opt, false
		r.Config, _ = s.config() // cannot fail: the optimizer was decoded from such JSON
	}
	switch {
	case s.cfg.HasRows():
		s.recordRows(r)
	case s.n == 0:
	case s.sum.keepsValue:
	case s.cfg.Rule == wire.RuleAverage && s.async(): // Counts say whose contribution it is
	case s.cfg.Rule == wire.RuleAverage && s.sum.weight <= 0:
	case s.cfg.Rule == wire.RuleAverage, s.opt == nil:
		r.Form, r.version, r.size = wire.RecordValue, s.acquire(), 4*s.n
	default:
		r.Form, r.data, r.size = wire.RecordSum, s.sum.data, 4*s.n
		s.sum.data = nil
	}
	b.pending = r
}

// recordRows puts the sum of rows into a record. Rows of an open vocabulary are named by their IDs.
func (s *Shard) recordRows(r *Record) {
	rowLen := int(s.cfg.RowLen)
	rows, values := s.rowSum().total(rowLen)
	r.Form, r.Rows, r.size = wire.RecordRows, len(rows), RowsPayloadSize(len(rows), rowLen)
	if len(rows) == 0 {
		return
	}
	if first := &s.sum.rows.first; first.data != nil {
		r.data = first.data
		*first = payload{}
	} else {
		r.data = s.cfg.Pool.Get(r.size)
		copy(r.data.Int64s(len(rows)), rows)
		copy(r.data.Float32s(2*len(rows) + len(values))[2*len(rows):], values)
	}
	if s.vocabulary != nil {
		to := r.data.Int64s(len(rows))
		for i, row := range to {
			to[i] = s.vocabulary.id(int(row))
		}
	}
}

// recordNewest adds a copy of a member's newest contribution to the record.
func (s *Shard) recordNewest(m *member) {
	r := s.backup.unacknowledged()
	if r == nil || m.newest() == nil {
		return
	}
	r.Form, r.data, r.size = wire.RecordNewest, s.cfg.Pool.Get(4*s.n), 4*s.n
	copy(r.data.Float32s(s.n), m.newest().Float32s(s.n))
}

// recordContribution adds a contribution to the record of the round that was just applied.
func (s *Shard) recordContribution(c Counted) {
	if r := s.backup.unacknowledged(); r != nil {
		r.Counts = append(r.Counts, c)
	}
}

// announce reports that a record waits to be sent.
func (s *Shard) announce() {
	if s.backup.unacknowledged() != nil && s.backup.closed != nil {
		s.backup.closed()
	}
}

// Lend returns the round that the backup has yet to acknowledge, or nil. It does not change until
// Commit, which the caller must call once.
func (s *Shard) Lend() *Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.backup.unacknowledged(); r != nil && !r.lent {
		r.lent = true
		return r
	}
	return nil
}

// Commit takes a record back. If it was acknowledged, the round's value is shown from now on and
// the next round may close; else Lend returns the record again.
func (s *Shard) Commit(r *Record, acknowledged bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.lent = false
	if s.backup.pending != r {
		s.discard(r)
		return
	}
	if !acknowledged {
		return
	}
	s.backup.pending = nil
	s.discard(r)
	s.releaseWaits()
}

// releaseWaits ends the waits for the value before the next round can change it.
func (s *Shard) releaseWaits() {
	s.wake()
	s.closeRounds()
}

func (s *Shard) discard(r *Record) {
	r.data.Release()
	if r.version != nil {
		s.release(r.version)
	}
	r.data, r.version = nil, nil
	s.backup.spare = r
}

// Detach makes the shard go on without a backup: closed rounds are shown at once.
func (s *Shard) Detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detach()
	s.releaseWaits()
}

func (s *Shard) detach() {
	b := s.backup
	if b == nil {
		return
	}
	b.inSync, b.filling = false, false
	if r := b.pending; r != nil {
		b.pending = nil
		if !r.lent {
			s.discard(r)
		}
	}
}

// BackupStatus reports whether a backup has the whole state, and whether it has yet to acknowledge
// a round.
func (s *Shard) BackupStatus() (on, pending bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.backup.isInSync(), s.backup.unacknowledged() != nil
}

// Follow applies to a backup a round that has closed at the primary. A round that it has already is
// acknowledged; a round that skips one is wire.CodeGap: the backup needs the whole state. Follow
// takes data, whose form r describes.
func (s *Shard) Follow(r *Record, data *Buffer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	owned := data
	defer func() { owned.Release() }()
	switch {
	case s.err != nil:
		return s.err
	case r.Round < s.rounds:
		return nil
	case r.Round > s.rounds:
		return s.refuse(wire.CodeGap, "follow: got round %d, want %d", r.Round, s.rounds)
	}
	if r.Configured {
		if err := s.configure(r.Config); err != nil {
			return err
		}
	}
	s.resetSum()
	s.open.setRate(r.Rate)
	if n := s.measuring; n != nil {
		n.kept.drop()
	}
	if r.Keep && s.cfg.Form == wire.FormDense && r.Weight > 0 {
		s.measurements().keep = true
	}
	switch {
	case r.Form == wire.RecordNone:
	case r.Form == wire.RecordSum && !s.cfg.HasRows() && s.opt != nil && s.cfg.Rule == wire.RuleOptimizer && data != nil:
		s.sum.data, s.sum.weight, owned = data, r.Weight, nil
		if err := s.apply(r.Round); err != nil {
			return err
		}
	case r.Form == wire.RecordValue && !s.cfg.HasRows() && data != nil:
		s.replace(data)
		owned = nil
		if s.sum.weight = r.Weight; s.keepsSum() {
			s.keepSum(r.Round)
		}
		s.resetSum()
	case r.Form == wire.RecordNewest && s.cfg.Rule == wire.RuleAverage && len(r.Counts) == 1 && data != nil:
		if m := s.memberOf(r.Counts[0].Node); m != nil {
			s.keepNewest(m, &payload{data: data}, r.Counts[0].Weight)
			owned = nil
			if err := s.apply(r.Round); err != nil {
				return err
			}
		}
	case r.Form == wire.RecordRows && s.cfg.HasRows():
		if err := s.checkRecord(r, data); err != nil {
			return err
		}
		s.sum.weight = r.Weight
		if r.Rows > 0 {
			s.rowSum().first, owned = payload{data: data, count: r.Rows}, nil
		}
		if err := s.apply(r.Round); err != nil {
			return err
		}
	default:
		return s.refuse(wire.CodeMalformed, "follow round %d: got data of form %d for form %d and rule %d", r.Round, r.Form, s.cfg.Form, s.cfg.Rule)
	}
	for _, c := range r.Counts {
		m := s.memberOf(c.Node)
		if m != nil {
			m.counted, m.known = max(m.counted, c.Seq), true
		}
		if c.Counts {
			s.countRecord(m, c.Node, c.Examples)
		}
		if s.guard != nil {
			s.learnNorm(c.Node, c.Norm, verdict(c.Verdict))
		}
	}
	if s.guard != nil {
		s.resetIfStuck()
	}
	s.pushed = true
	s.rounds++
	s.setNorms(r.Norms)
	s.weight = r.Weight
	s.publishRound(r.examples())
	s.current.generation = r.Generation
	s.beginRounds()
	return nil
}

// checkRecord checks the rows of a record, and replaces IDs by row numbers.
func (s *Shard) checkRecord(r *Record, data *Buffer) error {
	if r.Rows == 0 {
		return nil
	}
	if data == nil {
		return s.refuse(wire.CodeMalformed, "follow round %d: got no data for %d rows", r.Round, r.Rows)
	}
	rows := data.Int64s(r.Rows)
	if s.vocabulary != nil {
		if err := s.vocabulary.rowsOf(rows); err != nil {
			return s.full("follow", err)
		}
	}
	for i, row := range rows {
		if row < 0 || row >= int64(s.rowCount()) {
			return s.refuse(wire.CodeMalformed, "follow round %d: rows[%d]: got row %d, want 0 to %d", r.Round, i, row, s.rowCount()-1)
		}
	}
	return nil
}

// configure sets the primary's optimizer from its JSON; empty: none.
func (s *Shard) configure(config string) error {
	if s.cfg.Rule == wire.RuleAverage {
		return nil
	}
	if config == "" {
		s.opt = nil
		return nil
	}
	have, err := s.config()
	if err != nil || have == config {
		return err
	}
	cfg, err := optim.Decode([]byte(config))
	if err != nil {
		return s.refuse(wire.CodeMalformed, "follow: %v", err)
	}
	opt, err := optim.New(cfg)
	if err != nil {
		return s.refuse(wire.CodeMalformed, "follow: %v", err)
	}
	s.setOptimizer(opt)
	return nil
}

// SameOptimizer reports whether the shard's optimizer has opt's config; nil: no optimizer.
func (s *Shard) SameOptimizer(opt *optim.Optimizer) bool {
	have, ok := s.Optimizer()
	if opt == nil || !ok {
		return opt == nil && !ok
	}
	return have.Equal(opt.Config())
}
