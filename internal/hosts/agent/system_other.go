//go:build unix && !linux

package agent

import (
	"syscall"
	"time"
)

func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// awaitExit has no counterpart here: the process is reaped first and its group signalled after.
func awaitExit(int) {}

// adopt does nothing: only Linux reparents orphans to a chosen ancestor. Process groups are killed
// all the same.
func (s *server) adopt() (stop func(), err error) { return func() {}, nil }

func (s *server) killDescendants(time.Duration) {}
