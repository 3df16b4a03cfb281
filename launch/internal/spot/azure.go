package spot

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
)

// azure is the service of Azure's scheduled events. Events are not acknowledged (StartRequests):
// that would only make them begin earlier.
type azure struct {
	*client

	// name is this machine's among the resources of events; empty: it is not known yet.
	name string
}

const (
	azureName   = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
	azureEvents = "/metadata/scheduledevents?api-version=2020-07-01"
)

// azureCodes are the types of events: what they mean for what runs here.
var azureCodes = map[string]string{
	"Freeze":  "", // a pause of seconds
	"Preempt": agent.NoticePreempted, "Terminate": agent.NoticePreempted,
	"Reboot": agent.NoticeMaintenance, "Redeploy": agent.NoticeMaintenance,
}

func (s *azure) look(ctx context.Context) (outlook, error) {
	if s.name == "" {
		name, _, err := s.ask(ctx, http.MethodGet, azureName, "Metadata", "true")
		if err != nil {
			return outlook{}, err
		}
		if name = strings.TrimSpace(name); name == "" || strings.ContainsAny(name, " \r\n<>{}") {
			return outlook{}, fmt.Errorf("%s: got %s, want this machine's name", azureName, printable(name))
		}
		s.name = name
	}
	text, _, err := s.ask(ctx, http.MethodGet, azureEvents, "Metadata", "true")
	if err != nil {
		return outlook{}, err
	}
	var list struct {
		Events *[]struct {
			EventID, EventType, EventStatus, NotBefore string
			Resources                                  []string
		}
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil || list.Events == nil {
		return outlook{}, fmt.Errorf("%s: got %s, want a list of events", azureEvents, printable(text))
	}
	var first outlook
	unknown := ""
	for _, e := range *list.Events {
		code, known := azureCodes[e.EventType]
		switch {
		case !s.named(e.Resources):
			continue
		case !known:
			unknown = "event " + printable(e.EventType)
			continue
		case code == "":
			continue
		}
		o := outlook{code: code, text: fmt.Sprintf("Azure: %s of this machine", e.EventType)}
		if by, err := http.ParseTime(e.NotBefore); err == nil {
			o.by, o.text = by, o.text+" not before "+e.NotBefore
		} else if e.EventStatus == "Started" {
			o.by, o.text = time.Now(), o.text+", which has begun"
		}
		if first.code == "" || !o.by.IsZero() && (first.by.IsZero() || o.by.Before(first.by)) {
			first = o
		}
	}
	first.unknown = unknown
	return first, nil
}

// named reports whether this machine is among the resources of an event.
func (s *azure) named(resources []string) bool {
	for _, r := range resources {
		if strings.EqualFold(r, s.name) {
			return true
		}
	}
	return false
}
