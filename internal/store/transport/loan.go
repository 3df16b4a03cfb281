package transport

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Loan is memory of the process at the other end, which this process has mapped: where a
// request's payload lies, and perhaps where the payload of its answer belongs. The owner lends it
// for as long as its call lasts, and may take it back before. So all use is between Claim and
// Release, and short: an owner that takes its memory back waits for the Release. No use may follow
// the call's answer.
//
// Its methods may be called from one goroutine at a time.
type Loan struct {
	// word lies in memory that both ends have mapped.
	word       *uint32
	generation uint32
	payload    []byte
	out        []byte
	conn       interface{ endLoan() error }
}

// Payload is the request's payload. It may be read between Claim and Release; the owner does not
// change it meanwhile.
func (l *Loan) Payload() []byte { return l.payload }

// Out is where the answer's payload belongs; nil if the owner has not lent it. It may be written to
// between Claim and Release. A Response that is Placed says that it was filled.
func (l *Loan) Out() []byte { return l.out }

// Claim keeps the owner from taking its memory back until Release. It returns false if the owner
// has done so.
func (l *Loan) Claim() bool {
	return atomic.CompareAndSwapUint32(l.word, l.generation|loanLent, l.generation|loanClaimed)
}

// Release ends what Claim began. It must be called once for each successful Claim.
func (l *Loan) Release() {
	if !atomic.CompareAndSwapUint32(l.word, l.generation|loanClaimed, l.generation|loanLent) {
		atomic.CompareAndSwapUint32(l.word, l.generation|loanWanted, l.generation|loanOver)
	}
}

// Over reports whether the owner has taken its memory back. Then every Claim fails.
func (l *Loan) Over() bool {
	was := atomic.LoadUint32(l.word)
	return was != l.generation|loanLent && was != l.generation|loanClaimed
}

// The state of a loan is the low bits of a word that both ends have mapped. The others are the
// generation, which tells it from earlier loans by the same word: a peer that is late finds none of
// its own.
const (
	// loanOver is also the state of a word that was never used.
	loanOver    uint32 = 0
	loanLent    uint32 = 1
	loanClaimed uint32 = 2
	// loanWanted: the memory is claimed, and the owner waits for the release.
	loanWanted uint32 = 3
	// loanGeneration is the lowest bit of the generation.
	loanGeneration uint32 = 4
)

// A lender is a connection to a peer that can map memory of this process.
type lender interface {
	// lendCall lends a request's payload, and if possible dst, until end is called. It returns
	// nil where the payload can only be sent.
	lendCall(payload, dst []byte) *lentCall
}

// A borrower is the other end of a lender.
type borrower interface {
	// borrow finds the memory that a description names.
	borrow(description []byte, l *Loan) error
}

// A lentCall is the memory that a call lends its peer.
type lentCall struct {
	word        *uint32
	generation  uint32
	description [loanSize]byte
	memory      lentMemory
	owner       interface{ takeBack(*lentCall) }
	request     lentMessage
	// payload is the description.
	payload [1][]byte
}

// loanSize is the length of a loan's description, the payload of a request whose header says that
// it is lent:
//
//	offset  size
//	     0     4  number of the word that has the loan's state
//	     4     4  generation
//	     8     4  number, from 1, of the block of the sender's memory that has the payload
//	    12     4  the same for the answer's payload; 0: it is not lent
//	    16     8  offset of the payload in its block
//	    24     8  the same for the answer's payload
//	    32     4  bytes of the payload
//	    36     4  bytes for the answer's payload
//
// An answer with that flag has no payload: it was written to the place that was lent for it.
const loanSize = 40

// A lentMessage is a message of a frame whose header says that memory is lent.
type lentMessage struct{ wire.Message }

// end takes the memory back: when it returns, the peer does not use it. A peer that is using it has
// as long as a call that is cancelled may take; after that the caller's memory gets pages of its
// own, and the peer keeps the old ones.
func (k *lentCall) end() {
	lent, claimed := k.generation|loanLent, k.generation|loanClaimed
	for !atomic.CompareAndSwapUint32(k.word, lent, k.generation|loanOver) {
		if atomic.CompareAndSwapUint32(k.word, claimed, k.generation|loanWanted) {
			k.awaitRelease()
			break
		}
		// Any other word is of a peer that has changed what it must not.
		if was := atomic.LoadUint32(k.word); was != lent && was != claimed {
			k.awaitRelease()
			break
		}
	}
	k.memory.forget()
	k.owner.takeBack(k)
}

// awaitRelease returns when the peer has released the memory, or cannot reach it any more.
func (k *lentCall) awaitRelease() {
	pause, told := 20*time.Microsecond, false
	for waited := time.Duration(0); atomic.LoadUint32(k.word) != k.generation|loanOver; waited += pause {
		if waited >= grace {
			err := k.memory.detach()
			if err == nil {
				return
			}
			// The peer may write to the caller's memory, so the call cannot return.
			if !told {
				slog.Warn("transport: a peer still holds memory that was lent to it for a call that has ended; waiting until it releases the memory", "error", err)
				told = true
			}
		}
		time.Sleep(pause)
		pause = min(2*pause, 2*time.Millisecond)
	}
}
