package cluster

import "context"

type configKey struct{}

// WithConfig returns a context with which kvstore.Create joins the job of cfg as a worker: for
// tests and benchmarks that run many nodes in one process. Programs get their Config from the
// environment.
func WithConfig(ctx context.Context, cfg Config) context.Context {
	return context.WithValue(ctx, configKey{}, cfg)
}

// ConfigFrom returns the Config that WithConfig gave the context, or false.
func ConfigFrom(ctx context.Context) (Config, bool) {
	cfg, ok := ctx.Value(configKey{}).(Config)
	return cfg, ok
}
