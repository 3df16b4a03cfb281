package tune

import "github.com/paragon-train/paragon/tune/internal/checkpoints"

// A ledger is the state of a study: the sum of its events, and the scheduler. It has no
// clock, lock or disk. The same events in the same order make the same ledger.
type ledger struct {
	cfg *Config
	// view is what the suggester, the scheduler, the pruners and the observers see.
	view      *standings
	suggester Suggester
	scheduler Scheduler

	// active is how many attempts are under way.
	active int
	// judged says that a report had the metric.
	judged  bool
	queue   startQueue
	storage storage
	hash    decisionHash
}

// newLedger is the ledger of a study that has not begun, by a valid config.
func newLedger(cfg *Config) (*ledger, error) {
	v, err := newStandings(cfg)
	if err != nil {
		return nil, err
	}
	l := &ledger{cfg: cfg, view: v, suggester: cfg.Suggester, scheduler: cfg.Scheduler}
	if l.suggester == nil {
		l.suggester = Random{}
	}
	if l.scheduler == nil {
		l.scheduler = FIFO{}
	}
	l.hash.begin()
	return l, nil
}

// end makes a trial final and tells the scheduler.
func (l *ledger) end(t *Trial, s State, rule string) {
	l.queue.remove(t.Number)
	l.view.setState(t, s)
	t.Rule = rule
	t.run.order = nil
	l.scheduler.Ended(l.view, t.Number)
}

// enqueue lets a trial start, or go on, as soon as a slot is free.
func (l *ledger) enqueue(t *Trial) {
	l.view.setState(t, Pending)
	l.queue.add(t.Number)
}

// allKept are all checkpoints, those from before an exploit last.
func (l *ledger) allKept() []checkpoints.Saved {
	return append(l.view.trials.checkpoints(), l.storage.stale...)
}

// sizeOf is the size of a checkpoint in bytes, or 0.
func (l *ledger) sizeOf(name checkpoints.Name) (bytes int64) {
	for _, saved := range l.allKept() {
		if saved.Name == name {
			bytes = saved.Bytes
		}
	}
	return bytes
}
