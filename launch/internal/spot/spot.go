// Package spot watches the machine's metadata service for a notice that the cloud provider is
// taking the machine back (preemption).
//
// Each provider has a service at a link-local address that only the machine itself reaches. Watch
// asks it once a second, and reports what it says: a spot instance that is about to be stopped (two
// minutes before on AWS, 30 s on Google Cloud and Azure), maintenance that ends what runs there,
// and AWS's weaker recommendation to move. A service that fails, hangs or answers nonsense is asked
// again; its last answer stays valid. An event that is gone is withdrawn.
//
//	provider   asked for                                                           notice
//	aws        /latest/meta-data/spot/instance-action, with a token of IMDSv2      preempted
//	           /latest/meta-data/events/recommendations/rebalance                  risk
//	gcp        /computeMetadata/v1/instance/preempted                              preempted
//	           /computeMetadata/v1/instance/maintenance-event                      maintenance
//	azure      /metadata/scheduledevents: Preempt, Terminate                       preempted
//	           Reboot, Redeploy; of this machine alone                             maintenance
//
// Nothing is sent where no provider was named: Off is the default, and Auto is asked for.
package spot

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
)

// Watch tells of notices until ctx ends, each one once.
func Watch(ctx context.Context, cfg Config, tell func(agent.Notice)) {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if err := cfg.Check(); err != nil {
		cfg.Logger.Error(err.Error())
		return
	}
	c := newClient(cfg)
	provider := cfg.Provider
	if provider == Auto {
		if provider = detect(ctx, cfg, c); provider == Off && ctx.Err() == nil {
			cfg.Logger.Info("launch: found no metadata service of AWS, Google Cloud or Azure; not watching for notices (--spot auto)")
		}
	}
	var s service
	switch provider {
	case AWS:
		s = &aws{client: c}
	case GCP:
		s = &gcp{client: c}
	case Azure:
		s = &azure{client: c}
	default:
		return
	}
	w := watcher{service: s, provider: provider, log: cfg.Logger, tell: tell}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		w.look(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// A watcher tells of what changes.
type watcher struct {
	service  service
	provider string
	log      *slog.Logger
	tell     func(agent.Notice)

	told outlook

	// unknown is the one that was logged last.
	unknown string

	// failed is when a failure was told last; zero: the service answers.
	failed time.Time
}

func (w *watcher) look(ctx context.Context) {
	looking, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	now, err := w.service.look(looking)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		if w.failed.IsZero() || time.Since(w.failed) >= sayAgain {
			w.failed = time.Now()
			w.log.Warn(fmt.Sprintf("launch: metadata service of %s: %v; notices may be missed", w.provider, err))
		}
		return
	case !w.failed.IsZero():
		w.failed = time.Time{}
		w.log.Info(fmt.Sprintf("launch: metadata service of %s answers", w.provider))
	}
	if now.unknown != w.unknown {
		if w.unknown = now.unknown; now.unknown != "" {
			w.log.Warn(fmt.Sprintf("launch: metadata service of %s: %s is not known here, and nothing is done about it", w.provider, now.unknown))
		}
	}
	if now.code == w.told.code && now.text == w.told.text {
		return
	}
	if w.told.code != "" && (now.code == "" || now.code == agent.NoticeAtRisk) {
		w.tell(agent.Notice{Code: w.told.code, Text: w.provider + " no longer announces it", Withdrawn: true})
	}
	if w.told = now; now.code == "" {
		return
	}
	n := agent.Notice{Code: now.code, Text: now.text}
	if !now.by.IsZero() {
		n.Left = max(time.Until(now.by), time.Second)
	}
	w.tell(n)
}
