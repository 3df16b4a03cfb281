package shard

import "github.com/paragon-train/paragon/internal/store/wire"

// A backup is a Shard that closes no rounds of its own: it has members, but no contributions. It
// goes from state to state by Follow, and becomes a primary by being asked like one. Then workers
// send the contributions to open rounds again, which no backup has.

// Follow applies to a backup a round that has closed at the primary. A round that it has already is
// acknowledged; a round that skips one is wire.CodeGap: the backup needs the whole state. Follow
// takes data, whose form r describes.
func (s *Shard) Follow(r *Record, data *Buffer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		data.Release()
		return s.err
	case r.Round < s.rounds.number:
		data.Release()
		return nil
	case r.Round > s.rounds.number:
		data.Release()
		return s.cfg.refuse(wire.CodeGap, "follow: got round %d, want %d", r.Round, s.rounds.number)
	}
	if r.Configured {
		opt, err := s.updater.follow(&s.cfg, r.Config)
		if err != nil {
			data.Release()
			return err
		}
		s.setOptimizer(opt)
	}
	s.sum.reset()
	s.rounds.open.setRate(r.Rate)
	s.sum.norms.dropKept()
	if r.Keep && s.cfg.Form == wire.FormDense && r.Weight > 0 {
		s.sum.measured().keep = true
	}
	if r.Clip != nil {
		c := s.rounds.clipped()
		c.open, c.decided = *r.Clip, true
	}
	taken, err := s.followData(r, data)
	if !taken {
		data.Release()
	}
	if err != nil {
		return err
	}
	// Sequence numbers come last. A worker that sends a contribution again finds it counted
	// only if its round is in the value.
	s.members.follow(r)
	s.counts.follow(r, &s.members)
	s.guard.follow(&s.cfg, r, &s.members)
	s.pushed = true
	s.rounds.number++
	s.rounds.clip().closed()
	s.sum.setNorms(r.Norms)
	s.publish(r.Weight, r.examples())
	s.readers.current.generation = r.Generation
	s.rounds.begin(s.members.ordered())
	return nil
}

// followData changes the value by a record's data, and reports whether it has taken them. It makes
// the value in the same steps as the primary has, so that both are equal bit for bit: it sends the
// sum and not the difference of values, which would round. A record whose form does not fit the
// shard is of a peer that is wrong about it, and changes nothing.
func (s *Shard) followData(r *Record, data *Buffer) (taken bool, err error) {
	t := &s.sum
	rows := s.cfg.HasRows()
	switch {
	case r.Form == wire.RecordNone:
		return false, nil
	case r.Form == wire.RecordSum && !rows && s.updater.opt != nil && s.cfg.Rule == wire.RuleOptimizer && data != nil:
		t.data, t.weight = data, r.Weight
	case r.Form == wire.RecordValue && !rows && data != nil:
		s.readers.replace(data)
		if t.weight = r.Weight; t.norms.keeps() {
			t.keep(r.Round, s.replica.in(replicaInSync), s.readers.current.Float32s())
		}
		t.reset()
		return true, nil
	case r.Form == wire.RecordNewest && s.cfg.Rule == wire.RuleAverage && len(r.Counts) == 1 && data != nil:
		m := s.members.of(r.Counts[0].Node)
		if m == nil {
			return false, nil
		}
		t.addNewest(m, &payload{data: data}, r.Counts[0].Weight, s.members.ranked)
	case r.Form == wire.RecordRows && rows:
		if err := s.table.follow(&s.cfg, r, data); err != nil {
			return false, err
		}
		if t.weight = r.Weight; r.Rows > 0 {
			t.rowSum().first = payload{data: data, count: r.Rows}
			return true, s.apply(r.Round)
		}
		return false, s.apply(r.Round)
	default:
		return false, s.cfg.refuse(wire.CodeMalformed, "follow round %d: got data of form %d for form %d and rule %d", r.Round, r.Form, s.cfg.Form, s.cfg.Rule)
	}
	return true, s.apply(r.Round)
}
