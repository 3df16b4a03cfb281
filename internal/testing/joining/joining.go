// Package joining makes stores for tests and benchmarks that run many nodes of a job in one
// process. Programs get their part of a job from the environment (kvstore.Create), which a process
// has once; here each node has a cluster.Config of its own.
package joining

import (
	"context"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/cluster/joinoption"
	"github.com/paragon-train/paragon/kvstore"
)

// Join is kvstore.Create for the job that cfg describes, as a worker of it.
func Join(ctx context.Context, cfg cluster.Config, kind string, opts ...kvstore.Option) (kvstore.Store, error) {
	return kvstore.Create(ctx, kind, append([]kvstore.Option{joinoption.Option(cfg).(kvstore.Option)}, opts...)...)
}
