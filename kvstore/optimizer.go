package kvstore

import (
	"context"
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A control makes the calls about all servers.
type control struct {
	cfg      *settings
	requests *requests
	member   *membership
	keys     *keyTable
	rules    *roundRules
}

// SetOptimizer makes the servers apply an optimizer to each closed round.
func (s *control) SetOptimizer(ctx context.Context, cfg optim.Config) error {
	data, err := cfg.Encode()
	if err != nil {
		return fmt.Errorf("kvstore: set optimizer: %w", err)
	}
	if cfg.ClipGlobalNorm > 0 && s.cfg.async {
		return fmt.Errorf("kvstore: set optimizer: %w: ClipGlobalNorm is %v in an asynchronous store, want 0: pushes of different keys belong to no common step there; ClipNorm is the norm of each key", ErrUnsupported, cfg.ClipGlobalNorm)
	}
	before := s.rules.optimizer()
	if before != nil && !before.Equal(cfg) {
		old, _ := before.Encode()
		return fmt.Errorf("kvstore: set optimizer: %w: got %s, want %s as this worker set before", ErrConflict, data, old)
	}
	for _, k := range s.keys.sorted() {
		if cfg.WholeKeys() && k.rule == wire.RuleOptimizer && len(k.shards) > 1 {
			return keyError("set optimizer "+cfg.Name, k.name, ErrUnsupported,
				"it needs norms over whole keys, but the key is cut into %d shards: call SetOptimizer before Init", len(k.shards))
		}
	}
	if err := s.sendOptimizer(ctx, "set optimizer", string(data)); err != nil {
		return err
	}
	s.requests.holds.Store(cfg.ClipGlobalNorm > 0)
	return s.restoreRates(ctx, s.rules.setOptimizer(&cfg), &cfg)
}

// sendOptimizer sends the mode, the guard and, unless it is empty, the optimizer's JSON to all
// servers.
func (s *control) sendOptimizer(ctx context.Context, verb, config string) error {
	o, err := s.optimizerOp(verb, config)
	if err != nil {
		return err
	}
	return o.run(ctx)
}

// setUp sends mode, guard and the optimizer that was set to all servers, for those that have joined
// since.
func (s *control) setUp(ctx context.Context) error {
	config := ""
	if opt := s.rules.optimizer(); opt != nil {
		data, err := opt.Encode()
		if err != nil {
			return err
		}
		config = string(data)
	}
	o, err := s.optimizerOp("set optimizer on new servers", config)
	if err != nil {
		return err
	}
	o.background = true
	return o.run(ctx)
}

// optimizerOp is the op of sendOptimizer. Every worker sends the same to every server; the first
// one counts, and a server refuses another.
func (s *control) optimizerOp(verb, config string) (*op, error) {
	mode := wire.ModeSync
	switch {
	case s.cfg.async:
		mode = wire.ModeAsync
	case s.cfg.anyOrder:
		mode = wire.ModeAnyOrder
	}
	guard := ""
	if s.cfg.guard != nil {
		var err error
		if guard, err = shard.Guard(*s.cfg.guard).Encode(); err != nil {
			return nil, fmt.Errorf("kvstore: %s: %w", verb, err)
		}
	}
	return s.requests.toEveryServer(verb, func(c *call) {
		head := &wire.SetOptimizer{Mode: mode, Config: config, Guard: guard}
		c.request, c.origin, c.answer = head, &head.Origin, &wire.Ack{}
	}), nil
}

// SetLearningRate replaces the learning rate from a round on.
func (s *control) SetLearningRate(ctx context.Context, round uint64, rate float64) error {
	if !(rate >= 0) || math.IsInf(rate, 0) {
		return fmt.Errorf("kvstore: set learning rate: got %v, want a finite number, at least 0", rate)
	}
	if s.member.joining.Load() {
		return s.member.notYet("set learning rate")
	}
	// A round that this worker has not pushed to cannot close before all servers have the rate.
	for _, k := range s.keys.sorted() {
		if _, next := k.pushes.next(); !s.cfg.async && k.rule == wire.RuleOptimizer && round < next {
			return keyError("set learning rate", k.name, ErrConflict, "got round %d, to which this worker has pushed already; want round %d or later", round, next)
		}
	}
	return s.requests.everyServer(ctx, "set learning rate", func(c *call) {
		head := &wire.SetRate{Round: round, Rate: rate}
		c.request, c.origin, c.answer = head, &head.Origin, &wire.Ack{}
	})
}

// restoreRates sets the learning rates that SetLearningRate had set when the checkpoint was saved,
// for the rounds from the loaded one on. It does nothing if the optimizer differs from the saved
// one in anything else: then the caller has chosen another.
func (s *control) restoreRates(ctx context.Context, saved, now *optim.Config) error {
	if saved == nil || now == nil || saved.Equal(*now) {
		return nil
	}
	bare := *saved
	bare.Changes = now.Changes
	if !bare.Equal(*now) {
		return nil
	}
	round := uint64(0)
	for _, k := range s.keys.sorted() {
		_, next := k.pushes.next()
		round = max(round, next)
	}
	for i, ch := range saved.Changes {
		from := ch.Step
		if from < round {
			if i+1 < len(saved.Changes) && saved.Changes[i+1].Step <= round {
				// The next change is in force by that round, too, and replaces this one.
				continue
			}
			from = round
		}
		err := s.requests.everyServer(ctx, "set learning rate", func(c *call) {
			head := &wire.SetRate{Round: from, Rate: ch.LearningRate}
			c.request, c.origin, c.answer = head, &head.Origin, &wire.Ack{}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Usage returns what each server holds.
func (s *control) Usage(ctx context.Context) ([]Usage, error) {
	var answers []*wire.Usage
	err := s.requests.everyServer(ctx, "usage", func(c *call) {
		head, answer := &wire.ReadUsage{}, &wire.Usage{}
		answers = append(answers, answer)
		c.request, c.origin, c.answer = head, &head.Origin, answer
	})
	if err != nil {
		return nil, err
	}
	list := make([]Usage, len(answers))
	for i, a := range answers {
		list[i] = Usage{Server: i, Shards: a.Shards, Rows: a.Rows, Values: a.Values, State: a.State, Index: a.Index}
		for _, c := range a.Caught {
			list[i].Caught = append(list[i].Caught, CaughtCount{Node: NodeID(c.Node), Rank: c.Rank, Host: c.Host, Refused: c.Refused, Clipped: c.Clipped})
		}
	}
	return list, nil
}
