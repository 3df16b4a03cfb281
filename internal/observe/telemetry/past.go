package telemetry

import (
	"time"
)

// past is what is known of one process.
type past struct {
	// at is the time of values since the begin.
	at time.Duration

	values [numSlots]float64

	// went is when the process ended.
	went time.Duration

	gone   bool
	fine   ring
	coarse ring

	// steps are a worker's last ones.
	steps []Step

	// charged has a server's newest blames, by its node.
	charged map[uint64]Blame

	// partial says that its newest record may lack some workers that it blames.
	partial bool

	// blamed is what all servers charge to a worker.
	blamed blamed
}

// blamed is what all servers charge one worker with.
type blamed struct {
	// all is since the servers' begin.
	all Blame

	// timed is what was charged of it since this History knows the server.
	timed Blame
}
