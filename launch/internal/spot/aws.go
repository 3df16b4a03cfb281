package spot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
)

// aws is EC2's instance metadata service, version 2: each request shows a token.
type aws struct {
	*client
	token   string
	renewAt time.Time

	// seen is what was found last.
	seen awsNotice

	// by is the end of the instance, counted from when it was found.
	by time.Time
}

type awsNotice struct{ Action, Time string }

const (
	awsToken     = "/latest/api/token"
	awsAction    = "/latest/meta-data/spot/instance-action"
	awsRebalance = "/latest/meta-data/events/recommendations/rebalance"

	// awsTokenLife is the longest that the service allows.
	awsTokenLife = 6 * time.Hour

	// awsActions are the actions of AWS's documentation. After each of them nothing runs on
	// here.
	awsActions = "terminate stop hibernate"

	// awsInterruption is the time from the notice to the end of the instance.
	awsInterruption = 2 * time.Minute
)

func (s *aws) look(ctx context.Context) (outlook, error) {
	text, err := s.get(ctx, awsAction)
	var action awsNotice
	if err == nil {
		if err := json.Unmarshal([]byte(text), &action); err != nil || action.Action == "" {
			return outlook{}, fmt.Errorf("%s: got %s, want an action and a time", awsAction, printable(text))
		}
	}
	var o outlook
	switch {
	case err == nil && !slices.Contains(strings.Fields(awsActions), action.Action):
		o.unknown = "action " + printable(action.Action)
	case err == nil:
		o.code, o.text = agent.NoticePreempted, fmt.Sprintf("AWS: %s of this spot instance", printable(action.Action))
		by, err := time.Parse(time.RFC3339, action.Time)
		if err == nil {
			o.text += " at " + by.Format(time.RFC3339)
		}
		if s.seen != action {
			s.seen, s.by = action, time.Now().Add(awsInterruption-interval)
		}

		// The time is by a clock that is not ours.
		if o.by = by; err != nil || time.Until(by) > awsInterruption || time.Until(by) < 0 {
			o.by = s.by
		}
		return o, nil
	case !errors.Is(err, errNone):
		return outlook{}, err
	}
	text, err = s.get(ctx, awsRebalance)
	if errors.Is(err, errNone) {
		return o, nil
	}
	if err != nil {
		return outlook{}, err
	}
	var rebalance struct{ NoticeTime string }
	if err := json.Unmarshal([]byte(text), &rebalance); err != nil {
		return outlook{}, fmt.Errorf("%s: got %s, want a notice time", awsRebalance, printable(text))
	}
	o.code, o.text = agent.NoticeAtRisk, "AWS recommends leaving this spot instance (rebalance recommendation)"
	return o, nil
}

// get asks with a token, and with a new one if that is refused.
func (s *aws) get(ctx context.Context, path string) (string, error) {
	for attempt := 0; ; attempt++ {
		if s.token == "" || time.Now().After(s.renewAt) {
			if err := s.renew(ctx); err != nil {
				return "", err
			}
		}
		text, _, err := s.ask(ctx, http.MethodGet, path, "X-aws-ec2-metadata-token", s.token)
		var status *statusError
		if errors.As(err, &status) && status.status == http.StatusUnauthorized && attempt == 0 {
			s.token = ""
			continue
		}
		return text, err
	}
}

func (s *aws) renew(ctx context.Context) error {
	token, _, err := s.ask(ctx, http.MethodPut, awsToken, "X-aws-ec2-metadata-token-ttl-seconds", fmt.Sprint(int(awsTokenLife.Seconds())))
	if errors.Is(err, errNone) {
		// errNone would mean that there is no event.
		return fmt.Errorf("%s does not exist: this is not an AWS instance", awsToken)
	}
	if err != nil {
		return fmt.Errorf("token: %w; in a container the instance's hop limit for metadata must be 2 or more", err)
	}
	if token = strings.TrimSpace(token); token == "" || strings.ContainsAny(token, " \r\n\t<>") {
		return fmt.Errorf("%s: got %s, want a token", awsToken, printable(token))
	}
	s.token, s.renewAt = token, time.Now().Add(awsTokenLife/2)
	return nil
}
