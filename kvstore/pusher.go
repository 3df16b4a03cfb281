package kvstore

import "context"

// A pusher is a store's Pusher with a weight.
type pusher struct {
	s       *store
	weight  float32
	counted bool // the weight is a number of examples
}

func (p pusher) Push(ctx context.Context, key string, grads ...[]float32) error {
	return p.s.pushDense(ctx, p, "push", key, grads, nil, false)
}

func (p pusher) PushPull(ctx context.Context, key string, grads, outs [][]float32) error {
	return p.s.pushDense(ctx, p, "push-pull", key, grads, outs, true)
}

func (p pusher) PushPullMany(ctx context.Context, entries []Entry) error {
	return p.s.pushPullMany(ctx, p, entries)
}

func (p pusher) PushRows(ctx context.Context, key string, rows []int64, grad []float32) error {
	return p.s.pushRows(ctx, p, key, rows, grad)
}

// unweighted is the pusher of the store's own methods: weight 1.
func (s *store) unweighted() pusher { return pusher{s, 1, false} }

func (s *store) Push(ctx context.Context, key string, grads ...[]float32) error {
	return s.unweighted().Push(ctx, key, grads...)
}

func (s *store) PushPull(ctx context.Context, key string, grads, outs [][]float32) error {
	return s.unweighted().PushPull(ctx, key, grads, outs)
}

func (s *store) PushPullMany(ctx context.Context, entries []Entry) error {
	return s.unweighted().PushPullMany(ctx, entries)
}

func (s *store) PushRows(ctx context.Context, key string, rows []int64, grad []float32) error {
	return s.unweighted().PushRows(ctx, key, rows, grad)
}
