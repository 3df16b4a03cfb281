package cluster

import "time"

const (
	// logEvery is the time between log lines about one wait, and before the first.
	logEvery = 5 * time.Second
	// watchWait is how long the scheduler holds a Watch without news. A repeat costs one small
	// frame.
	watchWait = 20 * time.Second
	// firstPause is the pause between attempts to reach the scheduler, which doubles up to
	// longestPause: a restarted scheduler is found this soon, and many nodes do not flood it.
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second
)

// askTimeout is how long one attempt may take beyond the wait that the request asks for. A
// scheduler that works answers within milliseconds.
const askTimeout = 5 * time.Second
