package count

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
)

// Arrows count which files of a package, or which rooms of a tree, use which.
type Arrows struct {
	// All is the number of ordered pairs of which the first uses the second.
	All int

	// BackUp is the number of those that run against the order of the files. The order is the one
	// of Eades, Lin and Smyth (1993), which makes them few though not always the fewest: what no
	// other one left uses goes first, what uses no other one left goes last, and where there is
	// neither, the one that most exceeds in uses what uses it goes first.
	BackUp int

	// Mutual is the number of those whose opposite is there, too.
	Mutual int

	// back are those that BackUp counts, in order.
	back []arrow
}

// An arrow says that from uses to.
type arrow struct{ from, to string }

func arrowsOf(all map[arrow]bool) Arrows {
	place := map[string]int{}
	for i, name := range ordered(all) {
		place[name] = i
	}
	a := Arrows{All: len(all)}
	for e := range all {
		if place[e.from] > place[e.to] {
			a.BackUp++
			a.back = append(a.back, e)
		}
		if all[arrow{e.to, e.from}] {
			a.Mutual++
		}
	}
	slices.SortFunc(a.back, func(x, y arrow) int { return slices.Compare([]string{x.from, x.to}, []string{y.from, y.to}) })
	return a
}

// ordered puts the ends of arrows in the order that Arrows describes. Ties go by name.
func ordered(all map[arrow]bool) []string {
	left := map[string]bool{}
	for e := range all {
		left[e.from], left[e.to] = true, true
	}
	var first, last []string
	for len(left) > 0 {
		out, in := map[string]int{}, map[string]int{}
		for e := range all {
			if left[e.from] && left[e.to] {
				out[e.from]++
				in[e.to]++
			}
		}
		names := slices.Sorted(maps.Keys(left))
		sink := func(n string) bool { return out[n] == 0 }
		source := func(n string) bool { return in[n] == 0 }
		if i := slices.IndexFunc(names, sink); i >= 0 {
			last = append(last, names[i])
			delete(left, names[i])
			continue
		}
		i := slices.IndexFunc(names, source)
		if i < 0 {
			i = 0
			for j, n := range names {
				if out[n]-in[n] > out[names[i]]-in[names[i]] {
					i = j
				}
			}
		}
		first = append(first, names[i])
		delete(left, names[i])
	}
	slices.Reverse(last)
	return append(first, last...)
}

// uses returns which of the files name a function, type, variable, constant, method or field that
// another one declares. Imported packages are not read, so what comes by way of their types is not
// seen.
func uses(set *token.FileSet, files []*ast.File) map[arrow]bool {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: emptyPackages{}, FakeImportC: true, Error: func(error) {}}

	// Check reports what is missing of the imported packages, and goes on.
	pkg, _ := config.Check("counted", set, files, info)
	all := map[arrow]bool{}
	for id, object := range info.Uses {
		if object.Pkg() != pkg || !isShared(pkg, object) {
			continue
		}
		a := arrow{set.Position(id.Pos()).Filename, set.Position(object.Pos()).Filename}
		if a.from != a.to {
			all[a] = true
		}
	}
	return all
}

// isShared reports whether an object of the package can be used by several files.
func isShared(pkg *types.Package, object types.Object) bool {
	switch o := object.(type) {
	case *types.Func:
		return true
	case *types.Var:
		return o.IsField() || o.Parent() == pkg.Scope()
	}
	return object.Parent() == pkg.Scope()
}

// emptyPackages imports every package as one that declares nothing.
type emptyPackages struct{}

func (emptyPackages) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}
