package sampler

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// An Order says in which order the examples of an epoch are read, and so which of them a part has.
// The zero Order is Permutation.
type Order struct {
	kind   orderKind
	blocks *blocks
}

type orderKind uint8

const (
	permutationKind orderKind = iota
	contiguousKind
	blocksKind
	sequentialKind
)

var (
	// Permutation mixes all examples by (seed, epoch) before they are divided: in each epoch a
	// part has other ones, from all of the data set. What stands at a position is computed when
	// it is asked for, so there is no list of examples however many there are.
	Permutation = Order{}
	// Contiguous is MXNet's rule and the default of Split: a part has the same contiguous run
	// of examples in every epoch and reads it in an order that depends on (seed, epoch, part).
	// In a data set that is sorted by class a part sees few classes. Each use of Epoch makes
	// lists of as many numbers as there are examples in a part, and after a cut of as many as
	// remain.
	Contiguous = Order{kind: contiguousKind}
	// Sequential mixes nothing: every epoch has its examples by their numbers, and a part a
	// contiguous run of them.
	Sequential = Order{kind: sequentialKind}
)

// Blocks is the order for data in which one example is dear to read and its neighbours are then
// cheap: tar shards, row groups of Parquet, compressed shards. Block b holds the examples from
// firsts[b] to the next block's first; firsts begins with 0 and does not fall. The blocks are
// permuted by (seed, epoch), and then the examples inside each window of so many consecutive
// blocks: a reader that keeps the blocks of a window at hand reads each block once for each part
// that has a share of it. A window of 16 blocks or more mixes well, unless blocks are sorted by
// class: each window then should hold many classes.
func Blocks(firsts []int, window int) Order {
	b := &blocks{firsts: slices.Clone(firsts), window: window}
	hash := fnv.New64a()
	for k, first := range firsts {
		fmt.Fprintln(hash, first)
		if b.falls == 0 && k > 0 && first < firsts[k-1] {
			b.falls = k
		}
	}
	b.sum = hash.Sum64()
	return Order{blocksKind, b}
}

// Ordered sets the order of the examples. The default of Split and Divide is Contiguous.
func Ordered(o Order) Option { return func(s *Sampler) { s.order = o } }

// String returns the name of the order, which ParseOrder reads: "permutation", "contiguous",
// "sequential", or for example "blocks of 40, window 16, starts 0c3b5f0a91e27d46", whose last word is
// a hash of the blocks' first examples.
func (o Order) String() string {
	switch o.kind {
	case permutationKind:
		return "permutation"
	case contiguousKind:
		return "contiguous"
	case sequentialKind:
		return "sequential"
	}
	return fmt.Sprintf("blocks of %d, window %d, starts %016x", len(o.blocks.firsts), o.blocks.window, o.blocks.sum)
}

// ParseOrder returns the order of a name. The name of Blocks has no more than a hash of where the
// blocks begin: known are orders of the same data, one of which must have the same blocks, with any
// window.
func ParseOrder(name string, known ...Order) (Order, error) {
	for _, o := range []Order{Permutation, Contiguous, Sequential} {
		if name == o.String() {
			return o, nil
		}
	}
	var number, window int
	var sum uint64
	if n, err := fmt.Sscanf(name, "blocks of %d, window %d, starts %x", &number, &window, &sum); n < 3 || err != nil || window < 1 {
		return Order{}, fmt.Errorf("sampler: order %q: want permutation, contiguous, sequential or blocks", name)
	}
	for _, o := range known {
		if o.kind != blocksKind {
			continue
		}
		if same := (Order{blocksKind, &blocks{firsts: o.blocks.firsts, window: window, sum: o.blocks.sum, falls: o.blocks.falls}}); same.String() == name {
			return same, nil
		}
	}
	return Order{}, fmt.Errorf("sampler: order %q: it is of other blocks than those known (%s); give sampler.Blocks of the data that it was made for", name, names(known))
}

func names(orders []Order) string {
	var list []string
	for _, o := range orders {
		list = append(list, o.String())
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, "; ")
}

// check is an error if the order is not one of so many examples.
func (o Order) check(length int) error {
	if o.kind != blocksKind {
		return nil
	}
	return o.blocks.check(length)
}

// places returns what stands at each position of an epoch.
func (o Order) places(length int, seed uint64, epoch int) places {
	key := mix(mix(seed, orderKey), uint64(epoch))
	switch o.kind {
	case blocksKind:
		return o.blocks.places(length, key)
	case sequentialKind:
		return rising{}
	}
	p := makePermutation(length, key)
	return &p
}

// orderKey makes the random numbers of orders others than those of what else is drawn by a run's
// seed.
const orderKey = 0x6f72646572 // "order"

// places are the examples of an epoch by their positions. They belong to one goroutine.
type places interface {
	at(position int) int
}

// rising are the places of an epoch that is read in order.
type rising struct{}

func (rising) at(position int) int { return position }
