package main

import (
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/testing/imports"
)

// A graph has the rooms that each room imports, in order, by their names.
type graph map[string][]string

// nodeOf returns the name of a package's room, or "" if the picture does not have it.
func nodeOf(pkg string) string {
	_, room, _ := imports.RoomOf(pkg)
	return room.Name
}

// floors returns the floor of each of the graph's rooms, numbered from the top.
func floors(g graph) map[string]int {
	all := map[string]int{}
	for i, rooms := range imports.Floors() {
		for _, r := range rooms {
			if _, ok := g[r.Name]; ok {
				all[r.Name] = i
			}
		}
	}
	return all
}

// fold makes the graph of rooms.
func fold(imported map[string][]string) graph {
	g := graph{}
	for pkg, list := range imported {
		from := nodeOf(pkg)
		if from == "" {
			continue
		}
		g[from] = slices.Concat(g[from])
		for _, p := range list {
			to := nodeOf(p)
			if to != "" && to != from && !slices.Contains(g[from], to) {
				g[from] = append(g[from], to)
			}
		}
	}
	for _, list := range g {
		slices.Sort(list)
	}
	return g
}

// within lists, for each room, the packages below its folders, by the first folder of their paths
// there that is not called internal.
func within(imported map[string][]string) map[string][]string {
	all := map[string][]string{}
	for pkg := range imported {
		_, room, ok := imports.RoomOf(pkg)
		if !ok {
			continue
		}
		for _, folder := range room.Folders {
			if below, ok := strings.CutPrefix(pkg, folder+"/"); ok {
				first, _, _ := strings.Cut(strings.TrimPrefix(below, "internal/"), "/")
				if !slices.Contains(all[room.Name], first) {
					all[room.Name] = append(all[room.Name], first)
				}
			}
		}
	}
	for _, list := range all {
		slices.Sort(list)
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

// reaches returns the rooms that each room depends on, by whatever way. Imports run from a floor to
// a lower one, so there are no cycles.
func reaches(g graph) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	var visit func(n string) map[string]bool
	visit = func(n string) map[string]bool {
		if all[n] == nil {
			all[n] = map[string]bool{}
			for _, to := range g[n] {
				all[n][to] = true
				for reached := range visit(to) {
					all[n][reached] = true
				}
			}
		}
		return all[n]
	}
	for n := range g {
		visit(n)
	}
	return all
}
