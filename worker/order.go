package worker

import (
	"fmt"
	"log/slog"

	"github.com/paragon-train/paragon/sampler"
)

// An OrderedFeed is a DividedFeed whose epochs have an order that can be told and set. A Feed that
// embeds a *Partition is one. Checkpoints name the order, and a worker that joins a running job
// takes over that of the others. A feed that is none reads in one order always.
type OrderedFeed interface {
	DividedFeed
	// Order is the order of the examples of an epoch: the same on all workers.
	Order() sampler.Order
	// Reorder sets the order. Divided follows.
	Reorder(o sampler.Order) error
}

// orderOf is the name of a feed's order; empty: it has none.
func orderOf(feed Feed) string {
	if f, ok := feed.(OrderedFeed); ok {
		return f.Order().String()
	}
	return ""
}

// reorder gives a feed the order of a name, and reports whether that is another one than it had.
func reorder(feed Feed, name string) (changed bool, err error) {
	f, ok := feed.(OrderedFeed)
	if !ok {
		return false, fmt.Errorf("the examples are read in the order %s, and feed %T is not a worker.OrderedFeed", name, feed)
	}
	if f.Order().String() == name {
		return false, nil
	}
	known := []sampler.Order{f.Order()}
	if k, ok := feed.(interface{ knownOrders() []sampler.Order }); ok {
		known = append(known, k.knownOrders()...)
	}
	o, err := sampler.ParseOrder(name, known...)
	if err != nil {
		return false, err
	}
	return true, f.Reorder(o)
}

// followOrder gives a feed the order of the job that its worker has joined; empty: the job has
// none.
func followOrder(feed Feed, order string, logger *slog.Logger) error {
	if order == "" {
		return nil
	}
	own := orderOf(feed)
	changed, err := reorder(feed, order)
	if err != nil {
		return fmt.Errorf("worker: join: %w", err)
	}
	if changed {
		logger.Info("the order of the examples is that of the running job", "order", order, "of this worker", own)
	}
	return nil
}
