package nodes

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/tune/internal/slots"
)

// An asker asks a host for its processors and GPUs.
type asker func(context.Context, hosts.Host) (agent.Answer, error)

// nodeOf makes a node of those processors and GPUs of a host that the hosts file allows.
func nodeOf(h hosts.Host, has agent.Answer) (slots.Node, error) {
	n := slots.Node{Name: h.String(), Slots: h.Slots, CPUs: has.CPUs}
	if h.CPUs > 0 {
		n.CPUs = n.CPUs[:min(h.CPUs, len(n.CPUs))]
	}
	switch {
	case h.GPUs == hosts.NoGPUs:
		return n, nil
	case has.GPUErr != "":
		return n, fmt.Errorf("%s; to use the host without GPUs write gpus=0 in the hosts file", has.GPUErr)
	case h.GPUs > len(has.GPUs):
		return n, fmt.Errorf("the hosts file says gpus=%d, and the host has %d", h.GPUs, len(has.GPUs))
	}
	n.GPUs = has.GPUs
	if h.GPUs > 0 {
		n.GPUs = n.GPUs[:h.GPUs]
	}
	return n, nil
}
