package otel

import (
	"fmt"
	"net/url"
	"strings"
)

// The standard variables that name a collector.
const (
	// endpointVariable is for all signals. /v1/traces is added to it.
	endpointVariable = "OTEL_EXPORTER_OTLP_ENDPOINT"

	// tracesEndpointVariable is for traces, and used as it is.
	tracesEndpointVariable = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"

	protocolVariable       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	tracesProtocolVariable = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"

	// exporterVariable turns traces off if it is none.
	exporterVariable = "OTEL_TRACES_EXPORTER"

	disabledVariable = "OTEL_SDK_DISABLED"
)

const tracesPath = "/v1/traces"

// CheckEndpoint refuses what is no address of a collector.
func CheckEndpoint(endpoint string) error {
	_, err := parseEndpoint(endpoint)
	return err
}

// parseEndpoint reads the address of a collector. Errors do not repeat it where it has a password.
func parseEndpoint(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		if strings.Contains(endpoint, "@") {
			endpoint = "with a user name"
		}
		return nil, fmt.Errorf("address %q: want http://host:port or https://host:port of a collector that takes OTLP over HTTP", endpoint)
	case u.User != nil:
		return nil, fmt.Errorf("address %q has a user name: give it in OTEL_EXPORTER_OTLP_HEADERS, as Authorization=Basic%%20...", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("address of host %s has a query or a fragment: want http://host:port or http://host:port/path", u.Host)
	}
	return u, nil
}

// Endpoint is the URL to which spans go. flag is that of the command line, a base URL; where it is
// empty the standard variables count. Empty: the user names no collector.
func Endpoint(flag string, getenv func(string) string) (string, error) {
	if strings.EqualFold(getenv(disabledVariable), "true") {
		return "", nil
	}
	endpoint, from, base := flag, "--otel-endpoint", true
	if flag == "" {
		if getenv(exporterVariable) == "none" {
			return "", nil
		}
		if endpoint, from, base = getenv(tracesEndpointVariable), tracesEndpointVariable, false; endpoint == "" {
			endpoint, from, base = getenv(endpointVariable), endpointVariable, true
		}
		if endpoint == "" {
			return "", nil
		}
		protocol := getenv(tracesProtocolVariable)
		if protocol == "" {
			protocol = getenv(protocolVariable)
		}
		if protocol == "grpc" {
			return "", fmt.Errorf("%s is set, and the protocol is grpc: launch sends http/protobuf or http/json; name a collector for it with --otel-endpoint", from)
		}
	}
	u, err := parseEndpoint(endpoint)
	if err != nil {
		return "", fmt.Errorf("%s: %w", from, err)
	}
	if base {
		u = u.JoinPath(tracesPath)
	}
	return u.String(), nil
}
