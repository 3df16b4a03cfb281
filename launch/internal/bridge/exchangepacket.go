package bridge

import (
	"encoding/binary"
	"fmt"
	"math"
)

// exchangeBytes is the length of an exchange's packet.
//
//	offset  size  field
//	     0     1  'X'
//	     1     1  flags: flagAnswer, flagPushOnly
//	     2     2  0
//	     4     4  plan
//	     8     8  number, counted up from 1 in the session
//	    16     4  first entry
//	    20     4  number of entries; 0: only a wait for the exchanges before
//	    24     4  weight, a float32 of 0 or more
//	    28     4  examples
//	    32     8  factor of the optimizer's learning rate in this round, a float64; 0: 1
//	    40     8  0
const exchangeBytes = 48

// Flags of an exchange.
const (
	// flagAnswer asks for an answer when this exchange and all before it have ended.
	flagAnswer = 1
	// flagPushOnly leaves the new values with the servers.
	flagPushOnly = 2
)

// exchangePacket is an exchange as it comes.
type exchangePacket struct {
	flags        byte
	plan         uint32
	number       uint64
	first, count uint32
	weight       float32
	examples     uint32
	// factor multiplies the learning rate of the servers' optimizer; 0: 1.
	factor float64
}

// decodeExchange reads the packet of an exchange. An error is of the packet's form: the other end
// speaks another protocol.
func decodeExchange(b []byte) (p exchangePacket, err error) {
	if len(b) != exchangeBytes {
		return p, fmt.Errorf("bridge: %w: an exchange of %d bytes came, want %d", errProtocol, len(b), exchangeBytes)
	}
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	p = exchangePacket{
		flags: b[1], plan: u32(4), number: binary.LittleEndian.Uint64(b[8:]), first: u32(16), count: u32(20),
		weight: math.Float32frombits(u32(24)), examples: u32(28), factor: math.Float64frombits(binary.LittleEndian.Uint64(b[32:])),
	}
	rest := uint64(b[2]) | uint64(b[3]) | binary.LittleEndian.Uint64(b[40:])
	if p.flags&^(flagAnswer|flagPushOnly) != 0 || rest != 0 {
		return p, fmt.Errorf("bridge: %w: exchange %d has flags %#x, or bytes that are not 0 where this protocol has none", errProtocol, p.number, p.flags)
	}
	return p, nil
}

// answerBytes is the length of the head of an exchange's answer: 'x', the state, 6 bytes of 0, and
// the number.
const answerBytes = 16

// States of an exchange that has ended, in its completion word and in its answer.
const (
	stateDone   = 1
	stateFailed = 2
	// stateNoted says that it is done, and that a note must be read before its slots.
	stateNoted = 3
)

// putAnswer writes the head of an answer.
func putAnswer(b *[answerBytes]byte, number uint64, state byte) {
	*b = [answerBytes]byte{0: kindAnswer, 1: state}
	binary.LittleEndian.PutUint64(b[8:], number)
}
