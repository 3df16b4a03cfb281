// Package netlab runs processes in network namespaces of this machine, joined by a switch in this
// process that delays, loses, doubles and cuts what they send each other.
//
//	lab, err := netlab.New(seed, "a", "b")       // ErrUnavailable without Linux, root, iproute2 and /dev/net/tun
//	defer lab.Close()
//	cmd := lab.Command(ctx, "a", "./program")     // runs in a's namespace
//	lab.Set("a", "b", netlab.Link{Delay: 200 * time.Millisecond, Loss: 0.05})
//	lab.Set("b", netlab.Any, netlab.Link{Down: true})
//	lab.Clear()
//
// A host has one address, Address, at which the others reach it; nothing else is reached from it.
// The switch is packets read from one TUN device and written to another, so that no module of the
// kernel is needed (as sch_netem would be) and its choices come from a seed.
package netlab

import (
	"errors"
	"time"
)

// ErrUnavailable is in the chain of New's error where this machine has not what a Lab needs.
var ErrUnavailable = errors.New("network namespaces cannot be used here")

// Any stands for every host in the rules of links.
const Any = "*"

// A Link says what becomes of the packets from one host to another. The zero value passes them on
// at once.
type Link struct {
	Delay time.Duration
	// Jitter is a further delay, drawn for each packet up to this; the order stays.
	Jitter time.Duration
	// Loss is the share of packets that vanish.
	Loss float64
	// Duplicate is the share of packets that come twice.
	Duplicate float64
	// Reset answers packets of TCP with a reset, in place of the receiver.
	Reset bool
	// Down lets all packets vanish.
	Down bool
}
