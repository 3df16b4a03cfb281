package kvstore

// WithMember takes a place in a job that is already held.
func WithMember(n member) Option { return withMember(n) }
