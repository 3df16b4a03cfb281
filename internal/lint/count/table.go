package count

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	// shortList is how many types, functions and packages a list has that is not to have all.
	shortList = 20

	// longFunction, deepNesting and manyParameters are what a function may have without being
	// listed.
	longFunction, deepNesting, manyParameters = 60, 5, 6
)

// Table writes the figures as Markdown. roomOf is that of Rooms. Lists of types, functions and
// packages have the largest twenty, or all. The same tree gives the same text.
func (t *Tree) Table(roomOf func(pkg string) string, all bool) string {
	var s strings.Builder
	rows := shortList
	if all {
		rows = math.MaxInt
	}
	t.writePackages(&s)
	t.writeSums(&s)
	t.writeTypes(&s, rows)
	t.writeFunctions(&s, rows)
	t.writeFileArrows(&s, rows)
	t.writeRooms(&s, roomOf)
	return s.String()
}

func (t *Tree) writePackages(s *strings.Builder) {
	s.WriteString("## Lines\n\nTests are files whose names end in `_test.go`; all other columns leave them out. Comment share: of the lines that are not blank.\n" +
		"Trailing: comments behind code; long: of more than six words.\n\n" +
		"| package | code | comments | blank | comment share | trailing | long | tests' lines |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	var code, tests Lines
	for _, p := range t.Packages {
		code.add(p.Code)
		tests.add(p.Tests)
		writeLines(s, p.Path, p.Code, p.Tests)
	}
	writeLines(s, "**all**", code, tests)
}

func writeLines(s *strings.Builder, name string, code, tests Lines) {
	fmt.Fprintf(s, "| %s | %d | %d | %d | %.1f %% | %d | %d | %d |\n", name, code.Code, code.Comment, code.Blank, 100*code.Share(), code.Trailing, code.LongTrailing, tests.All())
}

// writeSums writes the lines of what changes a job's members: launcher, scheduler and control, each
// with the packages in the folders below.
func (t *Tree) writeSums(s *strings.Builder) {
	s.WriteString("\n## Launcher, scheduler and control\n\n| folder | code |\n| --- | ---: |\n")
	sum := 0
	for _, folder := range []string{"launch/internal/job", "internal/scheduler", "internal/member/scheduler", "internal/control", "internal/member/control"} {
		lines := 0
		for _, p := range t.Packages {
			if p.Path == folder || strings.HasPrefix(p.Path, folder+"/") {
				lines += p.Code.Code
			}
		}
		if lines > 0 {
			fmt.Fprintf(s, "| %s | %d |\n", folder, lines)
		}
		sum += lines
	}
	fmt.Fprintf(s, "| **all** | %d |\n", sum)
}

func (t *Tree) writeTypes(s *strings.Builder, rows int) {
	var all []Type
	for _, p := range t.Packages {
		all = append(all, p.Types...)
	}
	for _, list := range []struct {
		title string
		of    func(Type) int
	}{{"Types with the most methods", func(t Type) int { return t.Methods }}, {"Types with the most fields", func(t Type) int { return t.Fields }}} {
		fmt.Fprintf(s, "\n## %s\n\n| type | methods | fields |\n| --- | ---: | ---: |\n", list.title)
		for _, y := range largest(all, list.of, 0, rows) {
			fmt.Fprintf(s, "| %s | %d | %d |\n", y.Name, y.Methods, y.Fields)
		}
	}
}

func (t *Tree) writeFunctions(s *strings.Builder, rows int) {
	var all []Function
	for _, p := range t.Packages {
		all = append(all, p.Functions...)
	}
	for _, list := range []struct {
		title string
		over  int
		of    func(Function) int
	}{
		{"Functions of more than %d lines", longFunction, func(f Function) int { return f.Lines }},
		{"Functions nested deeper than %d", deepNesting, func(f Function) int { return f.Nesting }},
		{"Functions of more than %d parameters", manyParameters, func(f Function) int { return f.Parameters }},
	} {
		over := 0
		for _, f := range all {
			if list.of(f) > list.over {
				over++
			}
		}
		fmt.Fprintf(s, "\n## "+list.title+": %d\n\n| function | place | lines | nesting | parameters |\n| --- | --- | ---: | ---: | ---: |\n", list.over, over)
		for _, f := range largest(all, list.of, list.over, rows) {
			fmt.Fprintf(s, "| %s | %s | %d | %d | %d |\n", f.Name, f.Place, f.Lines, f.Nesting, f.Parameters)
		}
	}
}

// largest returns those with the largest figures over a limit, in falling order, and with equal
// figures in the order of all. There are as many as rows, or fewer.
func largest[T any](all []T, of func(T) int, over, rows int) []T {
	list := slices.DeleteFunc(slices.Clone(all), func(x T) bool { return of(x) <= over })
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(of(b), of(a)) })
	return list[:min(rows, len(list))]
}

func (t *Tree) writeFileArrows(s *strings.Builder, rows int) {
	s.WriteString("\n## Arrows between files of a package\n\nAn arrow says that a file uses a function, type, variable, constant, method or field that another one declares.\n" +
		"Back up: against an order of the files that makes them few. Mutual: between files that use each other.\nThe packages with the most arrows:\n\n" +
		"| package | arrows | back up | mutual |\n| --- | ---: | ---: | ---: |\n")
	for _, p := range largest(t.Packages, func(p *Package) int { return p.Arrows.All }, 0, rows) {
		fmt.Fprintf(s, "| %s | %d | %d | %d |\n", p.Path, p.Arrows.All, p.Arrows.BackUp, p.Arrows.Mutual)
	}
	var all Arrows
	for _, p := range t.Packages {
		all.All += p.Arrows.All
		all.BackUp += p.Arrows.BackUp
		all.Mutual += p.Arrows.Mutual
	}
	fmt.Fprintf(s, "| **all** | %d | %d | %d |\n", all.All, all.BackUp, all.Mutual)
}

func (t *Tree) writeRooms(s *strings.Builder, roomOf func(pkg string) string) {
	arrows, rooms, backUp := t.Rooms(roomOf)
	fmt.Fprintf(s, "\n## Rooms\n\n| rooms | arrows | back up | mutual |\n| ---: | ---: | ---: | ---: |\n| %d | %d | %d | %d |\n", len(rooms), arrows.All, arrows.BackUp, arrows.Mutual)
	if len(backUp) > 0 {
		s.WriteString("\nImports that run back up:\n\n")
	}
	for _, line := range backUp {
		s.WriteString("- " + line + "\n")
	}
}
