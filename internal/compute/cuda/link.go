package cuda

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// A Link is how GPUs of a group exchange numbers.
type Link uint8

const (
	// AutoLink is the first of those below that the machine has.
	AutoLink Link = iota
	// NCCL is NVIDIA's library of this name.
	NCCL
	// PeerCopies are copies from one GPU's memory to another's, and sums by our own kernel.
	// They need GPUs that can access each other.
	PeerCopies
	// ThroughHost are copies to pinned memory of the host and from there, and sums by our own
	// kernel.
	ThroughHost
)

var linkNames = [...]string{"auto", "NCCL", "peer copies", "the host's memory"}

func (l Link) String() string {
	if int(l) < len(linkNames) {
		return linkNames[l]
	}
	return fmt.Sprintf("Link(%d)", l)
}

// A rank is one GPU of a group.
type rank struct {
	*GPU
	context *drv.Context // the same as the GPU's

	// stream is that of what goes between GPUs.
	stream drv.Stream

	// event is for the order of two streams of this GPU.
	event drv.Event

	// met is for the order of streams of several GPUs.
	met drv.Event

	// received is room for the others' parts, where parts are copied.
	received drv.Ptr

	// stage is pinned room for copies through the host.
	stage []byte
}

// A piece is n float32 numbers that every rank has in a place of its own. Part i of a piece is rank
// i's: a multiple of 16 bytes of it, and of the last rank what is left besides.
type piece struct {
	// at is by rank.
	at []drv.Ptr

	n int64
}

// part is which numbers of a piece are rank i's.
func (p piece) part(i int) (from, n int64) {
	each := p.each()
	if from = each * int64(i); i == len(p.at)-1 {
		return from, p.n - from
	}
	return from, each
}

// each is the size of the parts that are alike.
func (p piece) each() int64 { return p.n / int64(len(p.at)) &^ 3 }

// largest is the size of the largest part.
func (p piece) largest() int64 {
	_, n := p.part(len(p.at) - 1)
	return n
}

// A linker puts exchanges on the ranks' streams; what was on these before comes first. One
// goroutine at a time uses it.
type linker interface {
	// gathers is false if a rank's own part is as far from the others as the host's memory is:
	// each then brings all for itself.
	gathers() bool
	// gather gives every rank what each has in its own part of the pieces.
	gather(pieces []piece) error
	// reduce sets each rank's own part of the pieces to the sum over all ranks. Other parts are
	// in no defined state then.
	reduce(pieces []piece) error
	// prepare makes room for the pieces that will be reduced.
	prepare(pieces []piece) error
	// breaks reports whether errors may occur in the background that no GPU reports. err
	// returns such an error, and may be called at any time.
	breaks() bool
	err() error
	// abort ends exchanges that would wait for ever, at any time, also one that is being asked
	// for; close gives everything back.
	abort() error
	close() error
}
