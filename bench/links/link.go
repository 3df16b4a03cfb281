package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// A link is a network namespace of servers and one for each host of workers, each with a wire to the first.
type link struct {
	servers string   // names of the namespaces
	workers []string // by host
	made    []string
}

// serversAddress is the address of the servers' end of the first wire. It exists within the network namespaces only.
const serversAddress = "10.213.7.1"

// subnet is that of a host's wire; .1 is the servers' end.
func subnet(host int) string { return fmt.Sprintf("10.213.%d.", 7+host) }

// workersAddress is the address of a host of workers.
func workersAddress(host int) string { return subnet(host) + "2" }

// device is the name of the workers' end of a host's wire.
func (l *link) device(host int) string { return fmt.Sprintf("pgw%dh%d", os.Getpid(), host) }

// newLink makes a link with so many hosts of workers, each wire of a rate in each direction.
func newLink(ctx context.Context, rate string, hosts int) (l *link, err error) {
	id := os.Getpid()
	l = &link{servers: fmt.Sprintf("paragon-%d-servers", id)}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.remove())
		}
	}()
	for i := range hosts {
		l.workers = append(l.workers, fmt.Sprintf("paragon-%d-workers%d", id, i))
	}
	for _, name := range append([]string{l.servers}, l.workers...) {
		if err := command(ctx, "ip", "netns", "add", name); err != nil {
			return l, err
		}
		l.made = append(l.made, name)
	}
	for i, workers := range l.workers {
		device, other := l.device(i), fmt.Sprintf("pgs%dh%d", id, i)
		if err := command(ctx, "ip", "link", "add", device, "netns", workers, "type", "veth", "peer", "name", other, "netns", l.servers); err != nil {
			return l, err
		}
		for _, end := range []struct{ in, device, address string }{{l.servers, other, subnet(i) + "1"}, {workers, device, workersAddress(i)}} {
			for _, line := range []string{
				"ip -n " + end.in + " address add " + end.address + "/24 dev " + end.device,
				"ip -n " + end.in + " link set lo up",
				"ip -n " + end.in + " link set " + end.device + " up",
				// The bucket holds what the rate brings in about 4 ms at 1 Gbit/s; packets wait at most 100 ms.
				"tc -n " + end.in + " qdisc add dev " + end.device + " root tbf rate " + rate + " burst 512kb latency 100ms",
			} {
				if err := command(ctx, strings.Fields(line)...); err != nil {
					return l, err
				}
			}
		}
		if i > 0 { // the servers have one address
			if err := command(ctx, "ip", "-n", workers, "route", "add", serversAddress, "via", subnet(i)+"1"); err != nil {
				return l, err
			}
		}
	}
	return l, nil
}

// remove removes the namespaces, and with them the devices. It does so also when the run was broken off.
func (l *link) remove() (err error) {
	for _, name := range l.made {
		err = errors.Join(err, command(context.Background(), "ip", "netns", "delete", name))
	}
	l.made = nil
	return err
}

func command(ctx context.Context, words ...string) error {
	out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
