package main

import (
	"maps"
	"slices"
	"strings"
)

// A graph has the nodes that each node imports, in order.
type graph map[string][]string

// A node is a package with those in the folders below it; programs is the one of all commands but
// launch.
const programs = "examples, bench"

// nodeOf returns the node of a package, or "" for what is of tests alone.
func nodeOf(pkg string) string {
	parts := strings.Split(pkg, "/")
	switch {
	case strings.Contains(pkg+"/", "test/") || strings.HasPrefix(pkg, "internal/testing") || strings.HasPrefix(pkg, "internal/lint") || strings.HasPrefix(pkg, "tools") || parts[0] == "docs":
		return ""
	case parts[0] == "internal":
		return strings.Join(parts[:2], "/")
	case strings.Contains(programs, parts[0]):
		return programs
	}
	return parts[0]
}

// fold makes the graph of nodes.
func fold(imported map[string][]string) graph {
	g := graph{}
	for pkg, list := range imported {
		from := nodeOf(pkg)
		if from == "" {
			continue
		}
		g[from] = slices.Concat(g[from])
		for _, p := range list {
			if to := nodeOf(p); to != "" && to != from && !slices.Contains(g[from], to) {
				g[from] = append(g[from], to)
			}
		}
	}
	for _, list := range g {
		slices.Sort(list)
	}
	return g
}

// within lists the packages in the folders below each node's, as they are called there.
func within(imported map[string][]string) map[string][]string {
	all := map[string][]string{}
	for _, pkg := range slices.Sorted(maps.Keys(imported)) {
		n := nodeOf(pkg)
		if below, ok := strings.CutPrefix(pkg, n+"/"); ok && n != programs {
			all[n] = append(all[n], strings.TrimPrefix(below, "internal/"))
		}
	}
	return all
}

// reaches returns the nodes that each node depends on, by whatever way. Go has no cycles of
// packages, but nodes could.
func reaches(g graph) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	var visit func(n string) map[string]bool
	visit = func(n string) map[string]bool {
		if all[n] == nil {
			all[n] = map[string]bool{}
			for _, to := range g[n] {
				all[n][to] = true
				maps.Copy(all[n], visit(to))
			}
		}
		return all[n]
	}
	for n := range g {
		visit(n)
	}
	return all
}

// reduce leaves out what follows: an import of c by a, where a imports b and b depends on c.
func reduce(g graph) graph {
	all, reduced := reaches(g), graph{}
	for n, list := range g {
		reduced[n] = slices.DeleteFunc(slices.Clone(list), func(to string) bool {
			return slices.ContainsFunc(list, func(other string) bool { return other != to && all[other][to] })
		})
	}
	return reduced
}
