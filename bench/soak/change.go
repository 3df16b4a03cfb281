package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Changes of the membership that a person asks for. What was asked is noted at once: the job may
// need a while to carry it out.

// addHost adds the first host that has no worker.
func addHost(ctx context.Context, j *job, _ *rand.Rand) (string, error) {
	for i := range hosts {
		if name := hostName(i); !slices.Contains(j.here, name) {
			j.here = append(j.here, name)
			_, err := j.ctl(ctx, "add", name)
			return name, err
		}
	}
	return "", errNone
}

// removeHost removes one of the hosts that have a worker.
func removeHost(ctx context.Context, j *job, r *rand.Rand) (string, error) {
	if len(j.here) <= minHosts {
		return "", errNone
	}
	i := r.IntN(len(j.here))
	name := j.here[i]
	j.here = slices.Delete(j.here, i, i+1)
	_, err := j.ctl(ctx, "remove", name)
	return name, err
}

// addServer adds a server on a host that has none: one backup is for the loss of one server, and a
// host that is cut off takes all of its servers with it.
func addServer(ctx context.Context, j *job, _ *rand.Rand) (string, error) {
	i := slices.IndexFunc(j.ranks[:], func(rank int) bool { return rank < 0 })
	if i < 0 {
		return "", errNone
	}
	out, err := j.ctl(ctx, "add-server", "--wait", hostName(i))
	if err != nil {
		return "", err
	}
	if _, err := fmt.Sscanf(out, "server %d", &j.ranks[i]); err != nil {
		return "", fmt.Errorf("add-server said %q: %w", out, err)
	}
	return fmt.Sprintf("server %d on %s", j.ranks[i], hostName(i)), nil
}

// removeServer removes one of the servers. The command may fail after the removal, while it waits
// for backups, so its words count.
func removeServer(ctx context.Context, j *job, r *rand.Rand) (string, error) {
	var here []int
	for i, rank := range j.ranks {
		if rank >= 0 {
			here = append(here, i)
		}
	}
	if len(here) <= minServers {
		return "", errNone
	}
	i := here[r.IntN(len(here))]
	rank := j.ranks[i]
	out, err := j.ctl(ctx, "remove-server", fmt.Sprint(rank))
	if strings.Contains(out, "REMOVED") {
		j.ranks[i] = -1
	}
	return fmt.Sprintf("server %d on %s", rank, hostName(i)), err
}
