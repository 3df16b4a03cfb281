package kvstoretest

import (
	"fmt"
	"slices"
	"testing"
)

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	if len(h.Types) == 0 {
		h.Types = []string{"dist_sync", "dist_async"}
	}
	for _, kind := range h.Types {
		for _, n := range h.Workers {
			t.Run(fmt.Sprintf("%s/workers=%d", kind, n), func(t *testing.T) { runType(t, h, kind, n) })
		}
	}
}

// runType runs the suite for one type of store and number of workers.
func runType(t *testing.T, h Harness, kind string, n int) {
	for _, group := range grouped(Cases(), kind, n) {
		if !h.Brief || group[0].Group != "" {
			runGroup(t, h, kind, n, group)
		}
	}
	if kind != "dist_async" && (!h.Brief || len(h.Servers) > 0) {
		runJobs(t, h, kind, n)
	}
}

// grouped returns the cases for a type of store and a number of workers, those of one job together.
func grouped(cases []Case, kind string, workers int) [][]Case {
	var groups [][]Case
	for _, c := range cases {
		if !c.isFor(kind) || len(c.Workers) > 0 && !slices.Contains(c.Workers, workers) {
			continue
		}
		i := -1
		if c.Group != "" {
			i = slices.IndexFunc(groups, func(g []Case) bool { return g[0].Group == c.Group })
		}
		if i < 0 {
			groups = append(groups, []Case{c})
		} else {
			groups[i] = append(groups[i], c)
		}
	}
	return groups
}

// runGroup runs cases on one job, until one fails: then the job is in no state to go on with.
func runGroup(t *testing.T, h Harness, kind string, workers int, group []Case) {
	if len(group) == 1 {
		c := group[0]
		t.Run(c.Name, func(t *testing.T) {
			c.Edge, c.PerHost = h.Edge, h.WorkersPerHost
			Together(t, h.Open(t, Config{Type: kind, Workers: workers, Options: c.options()}), c)
		})
		return
	}
	t.Run(group[0].Group, func(t *testing.T) {
		stores := h.Open(t, Config{Type: kind, Workers: workers, Options: group[0].options()})
		for _, c := range group {
			c.Edge, c.PerHost = h.Edge, h.WorkersPerHost
			if !t.Run(c.Name, func(t *testing.T) { Together(t, stores, c) }) {
				return
			}
		}
	})
}
