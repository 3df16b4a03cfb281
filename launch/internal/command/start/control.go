package start

import (
	"context"
	"fmt"
	"strings"

	"github.com/paragon-train/paragon/launch/internal/command/options"
)

// OpenControl listens for launch ctl on other machines where that was asked for, and where no
// agents dial in: with them it has been done.
func OpenControl(ctx context.Context, o *options.Options, e Environment) (done func(), err error) {
	if o.Start.Agents.Listen == "" || o.Start.Method != options.SSHMethod && o.Start.Method != options.LocalMethod {
		return func() {}, nil
	}
	l, err := listen(ctx, o, e, fmt.Sprintf("the launcher was started with --launcher %s and accepts no agents: start it with --launcher agents", o.Start.Method))
	if err != nil {
		return nil, err
	}
	e.Log.Info(fmt.Sprintf("launch ctl and launch top on other machines: --join %s and this job's secret", strings.Join(l.Addresses(), ",")))
	return func() {
		l.removeAddresses()
		_ = l.Close()
	}, nil
}
