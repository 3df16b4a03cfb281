package shard

import (
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// An optimizer that is set while a backup is being filled is neither in what the backup was given
// nor in a record: the fill begins anew.
func TestOptimizerThatIsSetSpoilsAFill(t *testing.T) {
	adam := optim.Config{Name: "adam", LearningRate: 0.1}
	for _, c := range backupCases() {
		if c.cfg.Rule == wire.RuleAverage {
			continue // has no optimizer
		}
		s := c.shard(t, 1)
		if b := fillFrom(t, s, 1, 1, 10, func() { setOptimizer(t, s, adam) }); b != nil {
			t.Errorf("%s: an optimizer was set meanwhile, and the fill went through", c.name)
		}
		b := fillFrom(t, s, 1, 1, 10, func() {})
		if b == nil {
			t.Fatalf("%s: a fill that nothing disturbed did not go through", c.name)
		}
		if cfg, ok := b.Optimizer(); !ok || !cfg.Equal(adam) {
			t.Errorf("%s: the backup has %+v, want adam", c.name, cfg)
		}
		setOptimizer(t, s, optim.Config{Name: "sgd", LearningRate: 0.5}) // goes with the next record
		if on, _ := s.BackupStatus(); !on || s.replica.in(replicaStale) {
			t.Errorf("%s: an optimizer set after the fill: got backup %v, spoiled %v, want true and false", c.name, on, s.replica.in(replicaStale))
		}
	}
}

// A backup that cannot apply a record says so, and does not count the round: the primary must not
// take it for a copy.
func TestBackupThatCannotApplyARecordSaysSo(t *testing.T) {
	for _, c := range backupCases() {
		if c.opt != "adam" || c.guard != nil || c.mode == wire.ModeAsync {
			continue
		}
		s := c.shard(t, 1)
		b := fillFrom(t, s, 1, 1, 10, func() {})
		if b.table.vocabulary != nil {
			continue // its slots are rows of the vocabulary
		}
		b.updater.state = nil // a state that does not belong to its rule
		x := c.push(s, 1, 0, 0)
		for round := uint64(1); x.Data == nil; round++ { // one with rows
			x = c.push(s, 1, 0, round)
			x.Seq, x.Round = 1, 0
		}
		mustPush(t, s, x, Held)
		r := s.Lend()
		data := b.cfg.Pool.Get(len(r.Bytes()))
		copy(data.Bytes(len(r.Bytes())), r.Bytes())
		if err := b.Follow(r, data); codeOf(err) != wire.CodeInternal {
			t.Errorf("%s: got %v, want code %v", c.name, err, wire.CodeInternal)
		}
		if b.Rounds() != 0 {
			t.Errorf("%s: the backup counts %d rounds, want 0", c.name, b.Rounds())
		}
	}
}
