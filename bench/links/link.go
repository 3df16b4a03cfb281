package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// A link is two network namespaces with one wire between them.
type link struct {
	servers, workers string // names of the namespaces
	device           string // of the workers' end
	made             []string
}

// The addresses of the two ends. They exist within the namespaces only.
const (
	serversAddress = "10.213.7.1"
	workersAddress = "10.213.7.2"
)

// newLink makes a link of a rate in each direction.
func newLink(ctx context.Context, rate string) (l *link, err error) {
	id := os.Getpid()
	l = &link{servers: fmt.Sprintf("paragon-%d-servers", id), workers: fmt.Sprintf("paragon-%d-workers", id), device: fmt.Sprintf("pgw%d", id)}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.remove())
		}
	}()
	other := fmt.Sprintf("pgs%d", id)
	for _, name := range []string{l.servers, l.workers} {
		if err := command(ctx, "ip", "netns", "add", name); err != nil {
			return l, err
		}
		l.made = append(l.made, name)
	}
	if err := command(ctx, "ip", "link", "add", l.device, "netns", l.workers, "type", "veth", "peer", "name", other, "netns", l.servers); err != nil {
		return l, err
	}
	for _, end := range []struct{ in, device, address string }{{l.servers, other, serversAddress}, {l.workers, l.device, workersAddress}} {
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
