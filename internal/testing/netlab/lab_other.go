//go:build !linux

package netlab

import (
	"context"
	"fmt"
	"os/exec"
)

// A Lab is a set of hosts; there is none on this system.
type Lab struct{}

// Stats count packets.
type Stats struct{ Passed, Lost, Doubled, Reset uint64 }

// New fails: network namespaces are Linux's.
func New(uint64, ...string) (*Lab, error) {
	return nil, fmt.Errorf("netlab: %w: they need Linux", ErrUnavailable)
}

// The methods of a Lab that does not exist.
func (*Lab) Address(string) string                                        { return "" }
func (*Lab) Namespace(string) string                                      { return "" }
func (*Lab) Command(context.Context, string, string, ...string) *exec.Cmd { return nil }
func (*Lab) Set(string, string, Link)                                     {}
func (*Lab) Unset(string, string)                                         {}
func (*Lab) Clear()                                                       {}
func (*Lab) Isolate(string)                                               {}
func (*Lab) Rejoin(string)                                                {}
func (*Lab) Stats() Stats                                                 { return Stats{} }
func (*Lab) Close() error                                                 { return nil }
