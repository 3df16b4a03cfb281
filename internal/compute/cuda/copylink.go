package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
)

// copyLink copies, from GPU to GPU or through the host.
type copyLink struct {
	ranks []*rank

	// host says that copies go through the host's memory.
	host bool

	// room is the number of numbers of the largest part.
	room int64

	// all is that of the largest piece.
	all int64
}

func (l *copyLink) gathers() bool { return !l.host }

// gather lets each rank copy the others' parts of all pieces. It copies nothing before what the
// others have put on their streams is done, since they write the parts there.
func (l *copyLink) gather(pieces []piece) error {
	if err := l.joinStreams(); err != nil {
		return err
	}
	return onAll(l.ranks, func(j int) error {
		r := l.ranks[j]
		for _, p := range pieces {
			for i := range l.ranks {
				from, n := p.part(i)
				if i == j {
					continue
				}
				if err := r.context.CopyPeer(p.at[j]+drv.Ptr(4*from), r.context, p.at[i]+drv.Ptr(4*from), l.ranks[i].context, 4*n, r.stream); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// reduce adds the other ranks' parts to a rank's own, in the order of ranks. Each rank reads what
// the others have computed and adds to a part that no other reads. So it waits only for the others'
// computation and, with copies through the host, until the others have copied theirs.
func (l *copyLink) reduce(pieces []piece) error {
	if !l.host {
		if err := l.joinStreams(); err != nil {
			return err
		}
	}
	for _, p := range pieces {
		if l.host {
			if err := l.expose(p); err != nil {
				return err
			}
		}
		if err := onAll(l.ranks, func(j int) error { return l.add(p, j) }); err != nil {
			return err
		}
	}
	return nil
}

// expose copies every rank's numbers to the host, once the others have taken what was there.
func (l *copyLink) expose(p piece) error {
	if err := l.joinStreams(); err != nil {
		return err
	}
	err := onAll(l.ranks, func(i int) error {
		r := l.ranks[i]
		return r.context.CopyToHost(unsafe.Pointer(&r.stage[0]), p.at[i], 4*p.n, r.stream)
	})
	if err != nil {
		return err
	}
	return l.joinStreams()
}

// add adds the others' parts of a piece to that of rank j, in the order of ranks, which is the same
// on every rank: sums are the same bits whoever adds them.
func (l *copyLink) add(p piece, j int) error {
	r := l.ranks[j]
	from, n := p.part(j)
	if n == 0 {
		return nil
	}
	own, room := p.at[j]+drv.Ptr(4*from), r.received
	for i, other := range l.ranks {
		if i == j {
			continue
		}
		var err error
		if l.host {
			err = r.context.CopyToDevice(room, unsafe.Pointer(&other.stage[4*from]), 4*n, r.stream)
		} else {
			err = r.context.CopyPeer(room, r.context, p.at[i]+drv.Ptr(4*from), other.context, 4*n, r.stream)
		}
		if err != nil {
			return err
		}
		if err := r.kernels.Add(r.stream, kernels.Float32, n, own, own, room, false); err != nil {
			return err
		}
		room += drv.Ptr(4 * l.room)
	}
	return nil
}

// joinStreams lets each rank's stream wait for what is on the others' now.
func (l *copyLink) joinStreams() error {
	if err := onAll(l.ranks, func(i int) error { return l.ranks[i].context.Record(l.ranks[i].met, l.ranks[i].stream) }); err != nil {
		return err
	}
	return onAll(l.ranks, func(j int) error {
		for i, other := range l.ranks {
			if i == j {
				continue
			}
			if err := l.ranks[j].context.WaitEvent(l.ranks[j].stream, other.met); err != nil {
				return err
			}
		}
		return nil
	})
}

// prepare takes room. Nothing may be under way.
func (l *copyLink) prepare(pieces []piece) error {
	room, all := l.room, l.all
	for _, p := range pieces {
		room, all = max(room, (p.largest()+63)/64*64), max(all, p.n)
	}
	if room == l.room && all == l.all {
		return nil
	}
	if err := l.close(); err != nil {
		return err
	}
	l.room, l.all = room, all
	return onAll(l.ranks, func(i int) (err error) {
		r := l.ranks[i]
		if r.received, err = r.malloc("other GPUs' gradients", 4*room*int64(len(l.ranks)-1)); err != nil || !l.host {
			return err
		}
		if r.stage, err = r.context.HostAlloc(4 * all); err != nil {
			return fmt.Errorf("cuda: pinned memory of %d bytes for gradients on their way from %s: %w", 4*all, r.Name(), err)
		}
		return nil
	})
}

func (l *copyLink) breaks() bool { return false }
func (l *copyLink) err() error   { return nil }
func (l *copyLink) abort() error { return nil }

func (l *copyLink) close() error {
	l.room, l.all = 0, 0
	return onAll(l.ranks, func(i int) error {
		r := l.ranks[i]
		var errs []error
		if r.received != 0 {
			errs = append(errs, r.context.Free(r.received))
		}
		if r.stage != nil {
			errs = append(errs, r.context.HostFree(r.stage))
		}
		r.received, r.stage = 0, nil
		return errors.Join(errs...)
	})
}
