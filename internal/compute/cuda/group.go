package cuda

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// A Group is executors of one model, each on a GPU of its own, that take steps together as if they
// were one with all of their batches: a parameter's value comes once, from the first member's
// memory, and its gradient, the sum over the members, goes there.
//
// Each GPU copies a part of the values from the host and of the sums to it, so that all of their
// links work at once; the rest goes between GPUs. Running statistics of batch normalisations,
// outputs and losses stay the members' own.
//
// Sums are made in the same way in each step, so that a run can be repeated bit by bit.
type Group struct {
	members []*Executor
	ranks   []*rank
	link    linker
	text    string

	// schedules are those of the members that exchanges were made for.
	schedules []*schedule

	// exchanges are by segment.
	exchanges []exchange

	failed error
	closed bool
}

// NewGroup joins executors of one model, on different GPUs. From then on the memory of the first
// one's parameters and gradients is that of all: the values in it are the group's, and the others'
// memory is not looked at any more, also not when one runs alone. Plans that exchange different
// things are an error.
func NewGroup(members []*Executor, link Link) (*Group, error) {
	if len(members) == 0 {
		return nil, errors.New("cuda: join GPUs: got no executors")
	}
	g := &Group{members: members}
	if err := g.open(link); err != nil {
		return nil, fmt.Errorf("cuda: join GPUs: %w", errors.Join(err, g.Close()))
	}
	return g, nil
}

// open checks that the members can work together before it changes any of them: one type, GPUs of
// the driver, each once, steps that are cut alike. Then it makes what the ranks need and points all
// members at the first one's host memory.
func (g *Group) open(link Link) error {
	first := g.members[0]
	seen := make(map[int]bool)
	for _, e := range g.members {
		context := e.gpu.Context()
		switch {
		case e.closed:
			return fmt.Errorf("the executor on %s is closed", e.gpu.Name())
		case e.cfg.Update != nil || e.plan.Grads == nil:
			return fmt.Errorf("the executor on %s does not copy gradients to the host", e.gpu.Name())
		case e.cfg.Type != first.cfg.Type:
			return fmt.Errorf("%s computes in %v and %s in %v, want one type", first.gpu.Name(), first.cfg.Type, e.gpu.Name(), e.cfg.Type)
		case context == nil:
			return fmt.Errorf("%s is not a GPU of the driver", e.gpu.Name())
		case seen[e.gpu.context.Info().Ordinal]:
			return fmt.Errorf("%s is named twice", e.gpu.Name())
		}
		seen[context.Info().Ordinal] = true
		g.ranks = append(g.ranks, &rank{GPU: e.gpu, context: context})
	}

	// What may fail comes before anything changes.
	if err := g.prepare(); err != nil {
		return err
	}
	err := onAll(g.ranks, func(i int) (err error) {
		r := g.ranks[i]
		if r.stream, err = r.context.NewStream(0); err != nil {
			return err
		}
		if r.event, err = r.context.NewEvent(false); err != nil {
			return err
		}
		r.met, err = r.context.NewEvent(false)
		return err
	})
	if err != nil {
		return err
	}
	if err := g.connect(link); err != nil {
		return err
	}
	if err := g.prepareLink(); err != nil {
		return err
	}
	return g.adopt()
}

// connect chooses how numbers go between the GPUs.
func (g *Group) connect(link Link) error {
	var none error
	if link == AutoLink || link == NCCL {
		lib, err := g.ranks[0].nccl()
		if err == nil {
			var l *ncclLink
			if l, err = newNCCLLink(lib, g.ranks); err == nil {
				g.link, g.text = l, fmt.Sprintf("%v %v", NCCL, lib.Version())
				return nil
			}
		}
		if link == NCCL {
			return err
		}
		none = err
	}
	if link != ThroughHost {
		blocked, err := g.access()
		if err != nil {
			return err
		}
		switch {
		case blocked == "":
			g.link, g.text = &copyLink{ranks: g.ranks}, PeerCopies.String()
		case link == PeerCopies:
			return errors.New(blocked)
		default:
			none = errors.Join(none, errors.New(blocked))
		}
	}
	if g.link == nil {
		g.link, g.text = &copyLink{ranks: g.ranks, host: true}, ThroughHost.String()
	}
	if none != nil {
		g.text = fmt.Sprintf("%s, since: %v", g.text, none)
	}
	return nil
}

// access lets every GPU reach the others' memory, or says which cannot.
func (g *Group) access() (blocked string, err error) {
	for i, r := range g.ranks {
		err := r.context.Do(func() error {
			for j, other := range g.ranks {
				if i == j {
					continue
				}
				can, err := r.context.CanAccess(other.context)
				if err != nil {
					return err
				}
				if !can {
					blocked = fmt.Sprintf("%s cannot access the memory of %s", r.name, other.name)
					return nil
				}
				if err := r.context.EnableAccess(other.context); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || blocked != "" {
			return blocked, err
		}
	}
	return "", nil
}

// String says how the group works: "2 GPUs by NCCL 2.28.9".
func (g *Group) String() string { return fmt.Sprintf("%d GPUs by %s", len(g.ranks), g.text) }

// adopt makes the first member's memory that of all.
func (g *Group) adopt() error {
	first := g.members[0]
	return onAll(g.ranks, func(i int) error {
		e := g.members[i]
		for k, m := range e.store.params.list {
			if err := m.follow(first.store.params.list[k]); err != nil {
				return err
			}
		}
		for k, m := range e.store.grads.list {
			if err := m.follow(first.store.grads.list[k]); err != nil {
				return err
			}
		}
		e.fresh.forget()
		return nil
	})
}

// follow makes another mirror's memory of the host that of m.
func (m *mirror) follow(first *mirror) error {
	if m == first {
		return nil
	}

	// The first member's memory is not pinned: numbers go through pinned memory here, too.
	if first.stage != nil && m.stage == nil {
		var err error
		if m.stage, err = m.gpu.context.HostAlloc(int64(len(m.host))); err != nil {
			return fmt.Errorf("cuda: pinned memory of %d bytes: %w", len(m.host), err)
		}
	}
	m.ends = first.ends
	return nil
}

// onAll runs f for each rank on its thread, all at once, and returns when all are done.
func onAll(ranks []*rank, f func(i int) error) error {
	errs := make([]error, len(ranks))
	one := func(i int) {
		if err := ranks[i].context.Do(func() error { return f(i) }); err != nil {
			errs[i] = fmt.Errorf("%s: %w", ranks[i].name, err)
		}
	}
	var others sync.WaitGroup
	for i := 1; i < len(ranks); i++ {
		others.Go(func() { one(i) })
	}
	one(0)
	others.Wait()
	return errors.Join(errs...)
}

// Close gives back what the group has; the executors go on alone, with the memory of the first.
func (g *Group) Close() error {
	if g.closed {
		return nil
	}
	g.closed = true
	if slices.ContainsFunc(g.members, func(e *Executor) bool { return e.watch.hangs }) {
		return fmt.Errorf("cuda: close a group of %d GPUs: its memory is not freed: %w", len(g.ranks), errHangs)
	}
	var errs []error

	// Otherwise abort has closed what there was.
	if g.link != nil && g.failed == nil {
		errs = append(errs, g.link.close())
	} else if l, ok := g.link.(*copyLink); ok {
		errs = append(errs, l.close())
	}
	errs = append(errs, onAll(g.ranks, func(i int) error {
		r := g.ranks[i]
		var errs []error
		for _, event := range []drv.Event{r.event, r.met} {
			if event != 0 {
				errs = append(errs, r.context.DestroyEvent(event))
			}
		}
		if r.stream != 0 {
			errs = append(errs, r.context.DestroyStream(r.stream))
		}
		return errors.Join(errs...)
	}))
	return errors.Join(errs...)
}

// within runs f, and gives up on it after a time.
func within(limit time.Duration, f func() error) error {
	answer := make(chan error, 1)
	go func() { answer <- f() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-answer:
		return err
	case <-timer.C:
		return fmt.Errorf("no answer for %v: %w", limit, errHangs)
	}
}
