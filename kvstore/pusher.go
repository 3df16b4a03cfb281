package kvstore

import "context"

// A pusher is a store's Pusher for one step.
type pusher struct {
	s    *store
	step PushOptions
}

func (p *pusher) Push(ctx context.Context, key string, grads ...[]float32) error {
	return p.s.pushDense(ctx, &p.step, "push", key, grads, nil, false)
}

func (p *pusher) PushPull(ctx context.Context, key string, grads, outs [][]float32) error {
	return p.s.pushDense(ctx, &p.step, "push-pull", key, grads, outs, true)
}

func (p *pusher) PushPullMany(ctx context.Context, entries []Entry) error {
	return p.s.pushMany(ctx, &p.step, "push-pull", entries, true)
}

func (p *pusher) PushMany(ctx context.Context, entries []Entry) error {
	return p.s.pushMany(ctx, &p.step, "push", entries, false)
}

func (p *pusher) PushRows(ctx context.Context, key string, rows []int64, grad []float32) error {
	return p.s.pushRows(ctx, &p.step, key, rows, grad)
}

func (s *store) Push(ctx context.Context, key string, grads ...[]float32) error {
	return s.plain.Push(ctx, key, grads...)
}

func (s *store) PushPull(ctx context.Context, key string, grads, outs [][]float32) error {
	return s.plain.PushPull(ctx, key, grads, outs)
}

func (s *store) PushPullMany(ctx context.Context, entries []Entry) error {
	return s.plain.PushPullMany(ctx, entries)
}

func (s *store) PushMany(ctx context.Context, entries []Entry) error {
	return s.plain.PushMany(ctx, entries)
}

func (s *store) PushRows(ctx context.Context, key string, rows []int64, grad []float32) error {
	return s.plain.PushRows(ctx, key, rows, grad)
}
