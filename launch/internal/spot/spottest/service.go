// Package spottest has the metadata services of AWS, Google Cloud and Azure, with the answers that
// their documentation gives.
package spottest

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// Name is what Azure calls the machine.
const Name = "WestNO_0"

// A Service is the metadata service of one machine: an http.Handler.
type Service struct {
	mu       sync.Mutex
	provider string
	event    string
	fault    string

	// token is the number of the present one of AWS.
	token int

	asked map[string]int
}

// New makes the service of a provider: aws, gcp or azure.
func New(provider string) *Service { return &Service{provider: provider, asked: make(map[string]int)} }

// The events that a Service may announce.
const (
	Nothing     = ""
	Preempt     = "preempt"
	Maintenance = "maintenance"
	Rebalance   = "rebalance" // AWS

	// Harmless is a live migration, a pause, or an event of another machine.
	Harmless = "harmless"

	// Unknown is an action that the provider has announced for no one yet.
	Unknown = "unknown"
)

// Announce changes what is about to happen; by is when, as the provider writes times; empty: it
// says no time, or a time of its documentation.
func (s *Service) Announce(event, by string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.event = event + " " + by
}

// The faults that a Service may have.
const (
	Hangs   = "hangs"
	Fails   = "fails"   // status 500
	Garbage = "garbage" // no answer of this service
	Huge    = "huge"    // an answer of 80 KiB

	// Redirect leads to another server.
	Redirect = "redirect"

	// Expired is for AWS: the token is not taken once.
	Expired = "expired"
)

// Fault gives it a fault; empty: none.
func (s *Service) Fault(fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault = fault; fault == Expired {
		s.token, s.fault = s.token+1, ""
	}
}

// Asked is how often a path was asked for.
func (s *Service) Asked(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

// ServeHTTP answers as the provider does.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	provider, fault, token := s.provider, s.fault, fmt.Sprintf("AQAEAtoken%d==", s.token)
	event, by, _ := strings.Cut(s.event, " ")
	s.asked[r.URL.Path]++
	s.mu.Unlock()
	switch fault {
	case Hangs:
		<-r.Context().Done()
		return
	case Fails:
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	case Redirect:
		http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		return
	case Garbage:
		fmt.Fprint(w, "<html>welcome to the hotel's network</html>")
		return
	case Huge:
		for range 80 {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
		return
	}
	switch provider {
	case "aws":
		aws(w, r, event, by, token)
	case "gcp":
		gcp(w, r, event)
	case "azure":
		azure(w, r, event, by)
	}
}

func aws(w http.ResponseWriter, r *http.Request, event, by, token string) {
	const header = "X-aws-ec2-metadata-token"
	switch {
	case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" && r.Header.Get(header+"-ttl-seconds") != "":
		fmt.Fprint(w, token)
	case r.Method != http.MethodGet:
		http.Error(w, "", http.StatusMethodNotAllowed)
	case r.Header.Get(header) != token:
		http.Error(w, "", http.StatusUnauthorized)
	case r.URL.Path == "/latest/meta-data/spot/instance-action" && event == Preempt:
		if by == "" {
			by = "2017-09-18T08:22:00Z"
		}
		fmt.Fprintf(w, `{"action": "terminate", "time": %q}`, by)
	case r.URL.Path == "/latest/meta-data/spot/instance-action" && event == Unknown:
		fmt.Fprint(w, `{"action": "polish", "time": "2017-09-18T08:22:00Z"}`)
	case r.URL.Path == "/latest/meta-data/events/recommendations/rebalance" && event == Rebalance:
		fmt.Fprint(w, `{"noticeTime": "2020-10-27T08:22:00Z"}`)
	default:
		http.NotFound(w, r)
	}
}

func gcp(w http.ResponseWriter, r *http.Request, event string) {
	w.Header().Set("Metadata-Flavor", "Google")
	switch {
	case r.Header.Get("Metadata-Flavor") != "Google":
		http.Error(w, "Missing required header \"Metadata-Flavor\": \"Google\"", http.StatusForbidden)
	case r.URL.Path == "/computeMetadata/v1/instance/preempted":
		fmt.Fprint(w, strings.ToUpper(fmt.Sprint(event == Preempt)))
	case r.URL.Path == "/computeMetadata/v1/instance/maintenance-event":
		fmt.Fprint(w, map[string]string{Maintenance: "TERMINATE_ON_HOST_MAINTENANCE", Harmless: "MIGRATE_ON_HOST_MAINTENANCE"}[event])
		if event != Maintenance && event != Harmless {
			fmt.Fprint(w, "NONE")
		}
	default:
		http.NotFound(w, r)
	}
}

func azure(w http.ResponseWriter, r *http.Request, event, by string) {
	const one = `{"EventId": "C7061BAC-AFDC-4513-B24B-AA5F13A16123", "EventStatus": %q, "EventType": %q, "ResourceType": "VirtualMachine", "Resources": [%q, "WestNO_1"],
		"NotBefore": %q, "Description": "Virtual machine is being paused because of a memory-preserving Live Migration operation.", "EventSource": "Platform", "DurationInSeconds": 5}`
	status := "Scheduled"
	if by == "" {
		// No time is said of an event that has begun.
		status = "Started"
	}
	switch {
	case r.Header.Get("Metadata") != "true":
		http.Error(w, `{"error": "Bad request. Required metadata header not specified"}`, http.StatusBadRequest)
	case r.URL.Path == "/metadata/instance/compute/name":
		fmt.Fprint(w, Name)
	case r.URL.Path == "/metadata/scheduledevents" && r.URL.Query().Get("api-version") != "":
		var events []string
		switch event {
		case Preempt:
			events = append(events, fmt.Sprintf(one, status, "Preempt", Name, by))
		case Maintenance:
			events = append(events, fmt.Sprintf(one, status, "Freeze", Name, by), fmt.Sprintf(one, status, "Reboot", Name, by))
		case Harmless:
			events = append(events, fmt.Sprintf(one, status, "Freeze", Name, by), fmt.Sprintf(one, status, "Preempt", "another", by))
		case Unknown:
			events = append(events, fmt.Sprintf(one, status, "Polish", Name, by))
		}
		fmt.Fprintf(w, `{"DocumentIncarnation": 1, "Events": [%s]}`, strings.Join(events, ", "))
	default:
		http.NotFound(w, r)
	}
}
