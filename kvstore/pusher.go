package kvstore

import "context"

// A plainPusher is a Pusher of a store: each of its pushes has the same options. Nothing of it
// changes, so it may be used by several goroutines.
type plainPusher struct {
	dense   *densePath
	sparse  *rowsPath
	options PushOptions
}

func (p *plainPusher) Push(ctx context.Context, key string, grads ...[]float32) error {
	return p.dense.push(ctx, &p.options, trip{verb: "push"}, Entry{key, grads, nil})
}

func (p *plainPusher) PushPull(ctx context.Context, key string, grads, outs [][]float32) error {
	return p.dense.push(ctx, &p.options, trip{verb: "push-pull", pull: true}, Entry{key, grads, outs})
}

func (p *plainPusher) PushPullMany(ctx context.Context, entries []Entry) error {
	return p.dense.pushMany(ctx, &p.options, trip{verb: "push-pull", pull: true}, entries)
}

func (p *plainPusher) PushMany(ctx context.Context, entries []Entry) error {
	return p.dense.pushMany(ctx, &p.options, trip{verb: "push"}, entries)
}

func (p *plainPusher) PushRows(ctx context.Context, key string, rows []int64, grad []float32) error {
	return p.sparse.push(ctx, &p.options, key, rows, grad)
}
