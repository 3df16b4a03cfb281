package tune

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/internal/member/searchcontrol"
)

// serveHosts implements hostKeeper.
func (j *Jobs) serveHosts(folder string) (close func()) {
	if j.prepare(context.Background()) != nil || j.remote == nil {
		return func() {} // the nodes are no hosts
	}
	s, err := searchcontrol.Serve(folder, j.answer)
	if err != nil {
		j.logger().Warn("tune: cannot listen for launch tune add, remove and hosts; the hosts of this search cannot be changed", "error", err)
		return func() {}
	}
	return func() { _ = s.Close() }
}

// answer answers launch tune hosts, add and remove.
func (j *Jobs) answer(ctx context.Context, q searchcontrol.Request) (string, error) {
	var err error
	switch q.Op {
	case searchcontrol.Hosts:
	case searchcontrol.Add:
		err = j.Add(ctx, q.Host)
	case searchcontrol.Remove:
		err = j.Remove(q.Host)
	default:
		err = fmt.Errorf("tune: got the request %q, want %s, %s or %s", q.Op, searchcontrol.Hosts, searchcontrol.Add, searchcontrol.Remove)
	}
	if err != nil {
		return "", err
	}
	table, err := j.Nodes()
	return table.String(), err
}
