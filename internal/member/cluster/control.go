package cluster

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Control sends a request of internal/member/control to the scheduler at addr, with the job's
// secret in cfg. Request and answer are JSON. It tries once.
func Control(ctx context.Context, addr string, cfg transport.Config, request []byte) ([]byte, error) {
	cfg.Connections = 1
	c := transport.NewClient(addr, cfg)
	defer c.Close()
	var report wire.Report
	if _, err := c.Call(ctx, &wire.Control{Request: string(request)}, &report, nil); err != nil {
		return nil, fmt.Errorf("cluster: ask the scheduler at %s: %w", addr, err)
	}
	return []byte(report.Answer), nil
}
