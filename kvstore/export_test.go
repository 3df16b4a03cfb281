package kvstore

import "github.com/paragon-train/paragon/internal/observe/telemetry"

// WithMember takes a place in a job that is already held.
func WithMember(n member) Option { return withMember(n) }

// HostSumsOf returns how many sums of its host's gradients a worker has sent, and how many rounds
// it has dissolved.
func HostSumsOf(kv Store) (sent, dissolved uint64) {
	if h := kv.(*store).hostSums; h != nil {
		return h.sums.Counts()
	}
	return 0, 0
}

// RecorderOf is where a worker's process keeps its measurements.
func RecorderOf(kv Store) *telemetry.Recorder { return kv.(*store).node.Recorder() }
