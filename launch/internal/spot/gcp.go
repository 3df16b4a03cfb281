package spot

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
)

// gcp is the metadata server of Google's Compute Engine.
type gcp struct {
	*client

	// told is what was found last. Its time counts from then.
	told outlook
}

const (
	gcpPreempted   = "/computeMetadata/v1/instance/preempted"
	gcpMaintenance = "/computeMetadata/v1/instance/maintenance-event"
	flavor         = "Metadata-Flavor"
	google         = "Google"

	// gcpPreemption is the time from the notice to the end of the machine.
	gcpPreemption = 30 * time.Second

	// gcpTermination is the time from a notice of maintenance to the end of the machine.
	gcpTermination = time.Minute
)

func (s *gcp) look(ctx context.Context) (outlook, error) {
	preempted, err := s.get(ctx, gcpPreempted, "FALSE")
	if err != nil {
		return outlook{}, err
	}
	switch preempted {
	case "TRUE":
		return s.since(agent.NoticePreempted, "Google Cloud preempts this instance", gcpPreemption), nil
	case "FALSE":
	default:
		return outlook{}, fmt.Errorf("%s: got %s, want TRUE or FALSE", gcpPreempted, printable(preempted))
	}
	event, err := s.get(ctx, gcpMaintenance, "NONE")
	if err != nil {
		return outlook{}, err
	}
	switch event {
	case "TERMINATE_ON_HOST_MAINTENANCE":
		return s.since(agent.NoticeMaintenance, "Google Cloud ends this instance for maintenance", gcpTermination), nil
	case "NONE", "MIGRATE_ON_HOST_MAINTENANCE":
		// After a live migration all goes on.
		s.told = outlook{}
		return outlook{}, nil
	}
	s.told = outlook{}
	return outlook{unknown: "maintenance event " + printable(event)}, nil
}

// since is an outlook that ends so long after it was seen first. It may have been there since the
// look before.
func (s *gcp) since(code, text string, left time.Duration) outlook {
	if s.told.code != code {
		s.told = outlook{code: code, text: text, by: time.Now().Add(left - interval)}
	}
	return s.told
}

// get reads a value; none is what one that is not there means.
func (s *gcp) get(ctx context.Context, path, none string) (string, error) {
	text, header, err := s.ask(ctx, http.MethodGet, path, flavor, google)
	var status *statusError
	switch {
	case header != nil && !errors.As(err, &status) && header.Get(flavor) != google:
		return "", fmt.Errorf("%s: the answer has no header %s: %s; another service answers there", path, flavor, google)
	case errors.Is(err, errNone):
		return none, nil
	case err != nil:
		return "", err
	}
	return strings.TrimSpace(text), nil
}
