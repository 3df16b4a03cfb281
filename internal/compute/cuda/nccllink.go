package cuda

import (
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/nccl"
)

// ncclLink is NCCL's. Rank 0's thread makes the calls.
type ncclLink struct {
	ranks   []*rank
	streams []drv.Stream
	clique  *nccl.Clique
}

func newNCCLLink(lib *nccl.Library, ranks []*rank) (*ncclLink, error) {
	l := &ncclLink{ranks: ranks}
	var devices []int
	for _, r := range ranks {
		devices = append(devices, r.context.Info().Ordinal)
		l.streams = append(l.streams, r.stream)
	}
	return l, l.do(func() (err error) {
		l.clique, err = lib.NewClique(devices)
		return err
	})
}

func (l *ncclLink) breaks() bool { return true }

func (l *ncclLink) do(f func() error) error { return l.ranks[0].context.Do(f) }

func (l *ncclLink) gathers() bool { return true }

// gather lets each rank have the others' parts. The few numbers that do not divide come from the
// last rank, which has them besides its part.
func (l *ncclLink) gather(pieces []piece) error {
	return l.together(pieces, func(p piece, own []drv.Ptr, each int64) error {
		return l.clique.AllGather(own, p.at, each, nccl.Float32, l.streams)
	}, func(rest []drv.Ptr, n int64) error {
		return l.clique.Broadcast(rest, rest, n, nccl.Float32, len(l.ranks)-1, l.streams)
	})
}

// reduce leaves each rank with the sum of its part, and all ranks with that of the numbers that do
// not divide.
func (l *ncclLink) reduce(pieces []piece) error {
	return l.together(pieces, func(p piece, own []drv.Ptr, each int64) error {
		return l.clique.ReduceScatter(p.at, own, each, nccl.Float32, nccl.Sum, l.streams)
	}, func(rest []drv.Ptr, n int64) error {
		return l.clique.AllReduce(rest, rest, n, nccl.Float32, nccl.Sum, l.streams)
	})
}

// together calls parts for what is divided alike, and rest for the few numbers behind it.
func (l *ncclLink) together(pieces []piece, parts func(p piece, own []drv.Ptr, each int64) error, rest func(at []drv.Ptr, n int64) error) error {
	one := func(p piece) error {
		n, each := int64(len(l.ranks)), p.each()
		own, end := make([]drv.Ptr, n), make([]drv.Ptr, n)
		for i, at := range p.at {
			own[i], end[i] = at+drv.Ptr(4*each*int64(i)), at+drv.Ptr(4*each*n)
		}
		if each > 0 {
			if err := parts(p, own, each); err != nil {
				return err
			}
		}
		if left := p.n - each*n; left > 0 {
			return rest(end, left)
		}
		return nil
	}
	return l.do(func() error {
		return l.clique.Together(func() error {
			for _, p := range pieces {
				if err := one(p); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func (l *ncclLink) prepare([]piece) error { return nil }

// err may be called from any thread, as abort may.
func (l *ncclLink) err() error   { return l.clique.Err() }
func (l *ncclLink) abort() error { return l.clique.Abort() }
func (l *ncclLink) close() error { return l.do(l.clique.Close) }
