package spot

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
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
	// code is agent.NoticePreempted or its like.
	code string

	// text is for people.
	text string

	// by is zero if it is not known when.
	by time.Time

	// unknown is what the service announces that is not known here; empty: nothing. No one
	// leaves for it: it may be harmless.
	unknown string
}

// printable is a word of an answer, as it may be shown.
func printable(s string) string {
	if s = strings.TrimSpace(s); len(s) > 100 {
		s = s[:100] + "..."
	}
	return fmt.Sprintf("%q", s)
}

const (
	linkLocal = "http://169.254.169.254"

	// interval is the time between looks. Training hands over at most two seconds and a step after
	// a notice.
	interval = time.Second

	// lookTime bounds one look.
	lookTime = 3 * time.Second

	// sayAgain is how often a service that fails is told of.
	sayAgain = time.Minute
)
