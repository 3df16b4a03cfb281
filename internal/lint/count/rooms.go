package count

// Rooms counts the imports between rooms. roomOf names a package's room, or returns "" for a
// package that does not count. The second result lists the rooms, and the third the imports of
// packages behind the arrows that run back up.
func (t *Tree) Rooms(roomOf func(pkg string) string) (arrows Arrows, rooms, backUp []string) {
	all := map[arrow]bool{}
	packages := map[arrow][]string{}
	seen := map[string]bool{}
	for _, p := range t.Packages {
		from := roomOf(p.Path)
		if from == "" {
			continue
		}
		if !seen[from] {
			seen[from] = true
			rooms = append(rooms, from)
		}
		for _, imported := range p.Imports {
			if to := roomOf(imported); to != "" && to != from {
				a := arrow{from, to}
				all[a] = true
				packages[a] = append(packages[a], p.Path+" → "+imported)
			}
		}
	}
	arrows = arrowsOf(all)
	for _, a := range arrows.back {
		backUp = append(backUp, packages[a]...)
	}
	return arrows, rooms, backUp
}
