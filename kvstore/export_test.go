package kvstore

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
