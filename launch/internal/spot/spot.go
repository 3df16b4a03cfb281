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
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
)

// The providers.
const (
	Off = "off"

	// Auto is the provider that this machine belongs to, if it is one of these.
	Auto = "auto"

	AWS   = "aws"
	GCP   = "gcp"
	Azure = "azure"
)

// Providers are all values of Config.Provider, for messages.
const Providers = "auto, aws, gcp, azure or off"

// URLVariable is the environment variable with the address of the metadata service, for tests; the
// services themselves are at 169.254.169.254.
const URLVariable = "PARAGON_METADATA_URL"

const (
	linkLocal = "http://169.254.169.254"

	// interval is the time between looks. Training hands over at most two seconds and a step after
	// a notice.
	interval = time.Second

	lookTime = 3 * time.Second // for one look

	// sayAgain is how often a service that fails is told of.
	sayAgain = time.Minute
)

// Config says what to watch.
type Config struct {
	// Provider is Off, Auto, AWS, GCP or Azure; empty: Off.
	Provider string

	// URL is that of the metadata service; empty: it is the provider's.
	URL string

	// DMI is the folder in which the kernel says what machine this is; empty: /sys/class/dmi/id.
	DMI string

	Logger *slog.Logger // slog.Default()

	// transport is nil if requests go over the network.
	transport http.RoundTripper
}

// Check returns what is wrong with a configuration.
func (c Config) Check() error {
	switch c.Provider {
	case "", Off, Auto, AWS, GCP, Azure:
	default:
		return fmt.Errorf("launch: spot provider %q is unknown; want %s", c.Provider, Providers)
	}
	if c.URL != "" {
		if u, err := url.Parse(c.URL); err != nil || u.Scheme != "http" || u.Host == "" {
			return fmt.Errorf("launch: metadata service %q (%s): want a URL such as %s", c.URL, URLVariable, linkLocal)
		}
	}
	return nil
}

// A service is a provider's metadata service.
type service interface {
	// look asks what is about to happen to this machine.
	look(ctx context.Context) (outlook, error)
}

// An outlook is what is about to happen; the zero value is nothing.
type outlook struct {
	code string // agent.NoticePreempted and the like

	// text is for people.
	text string

	// by is zero if it is not known when.
	by time.Time

	// unknown is what the service announces that is not known here; empty: nothing. No one
	// leaves for it: it may be harmless.
	unknown string
}

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

// printable is a word of an answer, as it may be shown.
func printable(s string) string {
	if s = strings.TrimSpace(s); len(s) > 100 {
		s = s[:100] + "..."
	}
	return fmt.Sprintf("%q", s)
}
