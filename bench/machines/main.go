// Command machines puts results of several machines side by side.
//
//	bench/peers/torch.sh --save docs/design/measured
//	PSLITE=path/to/ps-lite bench/peers/pslite.sh -save docs/design/measured
//	go run ./bench/machines docs/design/measured/*.txt
//	go run ./bench/machines -into docs/performance.md docs/design/measured/*.txt
//
// With -into the tables are written into a page, between the comments <!-- machines: PATTERN -->
// and <!-- end -->: there a table of the rows whose names match the regular expression, or, without
// a pattern, the list of machines.
//
// The files are what bench/peers and bench/kv print: lines of Go's benchmarks below a head that
// says which machine it is. Each ratio to a peer is a row, and each machine a column, or several
// where its files have other notes, such as the peer's version; a row that a machine could not
// measure, or during which other processes were at work, says so.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/bench/internal/machine"
)

func main() {
	into := flag.String("into", "", "page whose tables are written anew; without it all goes to standard output")
	flag.Parse()
	var err error
	if *into != "" {
		err = update(*into, flag.Args())
	} else {
		err = run(flag.Args(), os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "machines:", err)
		os.Exit(1)
	}
}

// run writes a table of all rows of the files.
func run(files []string, out io.Writer) error {
	t, err := readAll(files)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	t.writeMachines(w)
	fmt.Fprint(w, "\nRatio of medians (least to greatest of turns); ours and the peer's.\n\n")
	t.writeRows(w, t.rows)
	return w.Flush()
}

// update writes the tables of a page anew.
func update(page string, files []string) error {
	t, err := readAll(files)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	updated, err := t.insert(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(updated), 0o666)
}

var (
	place = regexp.MustCompile(`^<!-- machines(?:: (.+))? -->$`)
	end   = "<!-- end -->"
)

// insert returns the page with the tables in their places.
func (t *table) insert(page string) (string, error) {
	var out strings.Builder
	inside, places := false, 0
	for line := range strings.Lines(page) {
		text := strings.TrimSuffix(line, "\n")
		m := place.FindStringSubmatch(text)
		switch {
		case m != nil && inside:
			return "", fmt.Errorf("%q: no %q ends the table before it", text, end)
		case m != nil:
			inside = true
			places++
			fmt.Fprintf(&out, "%s\n\n", text)
			if m[1] == "" {
				t.writeMachines(&out)
			} else if err := t.writeMatching(&out, m[1]); err != nil {
				return "", err
			}
			fmt.Fprintln(&out)
		case text == end:
			inside = false
			out.WriteString(line)
		case !inside:
			out.WriteString(line)
		}
	}
	if inside || places == 0 {
		return "", fmt.Errorf("%d tables begin, and the last one ends: %t; want at least one, and an end of each", places, !inside)
	}
	return out.String(), nil
}

// writeMatching writes the rows whose names match the pattern.
func (t *table) writeMatching(w io.Writer, pattern string) error {
	names, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	rows := slices.DeleteFunc(slices.Clone(t.rows), func(row string) bool { return !names.MatchString(row) })
	if len(rows) == 0 {
		return fmt.Errorf("no row matches %q", pattern)
	}
	t.writeRows(w, rows)
	return nil
}

func readAll(files []string) (*table, error) {
	if len(files) == 0 {
		return nil, errors.New("want files that bench/peers or bench/kv wrote with --save")
	}
	t := new(table)
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		err = t.read(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return t, nil
}

// A table has a row for each ratio, in the order in which they came, and a column for each machine.
type table struct {
	machines []string

	// notes has the first note of each machine.
	notes map[string]string

	rows []string

	// cells are by row and machine.
	cells map[string]map[string]string
}

// read adds a file's results.
func (t *table) read(in io.Reader) error {
	column, here := "", ""
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		line := lines.Text()
		if text, ok := strings.CutPrefix(line, "machine: "); ok {
			here, column = text, t.column(text, "")
			continue
		}
		if text, ok := strings.CutPrefix(line, "note: "); ok && here != "" {
			column = t.column(here, text)
			continue
		}
		name, cell := "", ""
		if text, ok := strings.CutPrefix(line, "# BenchmarkRatio/"); ok {
			name, cell, _ = strings.Cut(text, ": ")
		} else if text, ok := strings.CutPrefix(line, "BenchmarkRatio/"); ok {
			f := strings.Fields(text)
			var err error
			if cell, err = cellOf(f); err != nil {
				return fmt.Errorf("line %q: %w", line, err)
			}
			name = f[0]
		} else {
			continue
		}
		if column == "" {
			return fmt.Errorf("line %q: no line \"machine: ...\" goes ahead of it", line)
		}
		t.put(name, column, cell)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if here == "" {
		return errors.New(`no line "machine: ..."`)
	}
	return nil
}

// column returns the name of a machine's column for files with a note. The machine's first note
// needs no column of its own.
func (t *table) column(machine, note string) string {
	if t.notes == nil {
		t.notes = map[string]string{}
	}
	name := machine
	switch first, known := t.notes[machine]; {
	case !known && !slices.Contains(t.machines, machine):
		t.machines = append(t.machines, machine)
	case known && note != "" && note != first:
		if name = machine + "; " + note; !slices.Contains(t.machines, name) {
			t.machines = append(t.machines, name)
		}
	}
	if _, known := t.notes[machine]; !known && note != "" {
		t.notes[machine] = note
	}
	return name
}

// put keeps the last value of a cell. Rows stay in the order in which they come.
func (t *table) put(row, machine, cell string) {
	if t.cells == nil {
		t.cells = map[string]map[string]string{}
	}
	if t.cells[row] == nil {
		t.cells[row] = map[string]string{}
		t.rows = append(t.rows, row)
	}
	t.cells[row][machine] = cell
}

// cellOf is what a line tells: the ratio, least to greatest, and both programs' figures.
func cellOf(fields []string) (string, error) {
	value := map[string]float64{}
	for i := 3; i < len(fields); i += 2 {
		x, err := strconv.ParseFloat(fields[i-1], 64)
		if err != nil {
			return "", err
		}
		value[fields[i]] = x
	}
	if _, ok := value["x"]; !ok {
		return "", errors.New("want a number of x")
	}
	if why := machine.Disturbed(value["others"]); why != "" {
		return why, nil
	}
	cell := fmt.Sprintf("**%.2f** (%.2f to %.2f)", value["x"], value["x-min"], value["x-max"])
	if ours, ok := value["ours-images/s"]; ok {
		cell += fmt.Sprintf("; %s and %s a second", figure(ours), figure(value["peer-images/s"]))
	}
	if ours, ok := value["ours-ns/op"]; ok {
		cell += fmt.Sprintf("; %s and %s", duration(ours), duration(value["peer-ns/op"]))
	}
	return cell, nil
}

// figure writes a rate with at least three digits.
func figure(x float64) string {
	if x < 100 {
		return fmt.Sprintf("%.3g", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// duration writes nanoseconds with three digits.
func duration(ns float64) string {
	switch {
	case ns < 1e6:
		return fmt.Sprintf("%.3g µs", ns/1e3)
	case ns < 1e9:
		return fmt.Sprintf("%.3g ms", ns/1e6)
	}
	return fmt.Sprintf("%.3g s", ns/1e9)
}

// label is a row in words: the parts of its name, NAME=VALUE.
func label(row string) string {
	var parts []string
	for part := range strings.SplitSeq(row, "/") {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			value = part
		}
		switch name {
		case "workers", "servers", "threads", "processes", "batch":
			value = fmt.Sprintf("%s %s", value, name)
		case "bytes":
			value += " bytes"
		case "transport":
			value = "over " + value
		case "peer":
			value = "against " + value
		}
		parts = append(parts, value)
	}
	return strings.Join(parts, ", ")
}

func (t *table) writeMachines(w io.Writer) {
	for i, m := range t.machines {
		if note := t.notes[m]; note != "" && len(t.machines) > 1 && slices.ContainsFunc(t.machines, func(x string) bool { return strings.HasPrefix(x, m+"; ") }) {
			m += "; " + note
		}
		fmt.Fprintf(w, "- %c: %s\n", 'A'+i, m)
	}
}

// writeRows writes a table of some rows, with the machines that have measured one of them.
func (t *table) writeRows(w io.Writer, rows []string) {
	var columns []int
	for i, m := range t.machines {
		if slices.ContainsFunc(rows, func(row string) bool { return t.cells[row][m] != "" }) {
			columns = append(columns, i)
		}
	}
	fmt.Fprint(w, "| work |")
	for _, i := range columns {
		fmt.Fprintf(w, " %c |", 'A'+i)
	}
	fmt.Fprintf(w, "\n| --- |%s\n", strings.Repeat(" --- |", len(columns)))
	for _, row := range rows {
		fmt.Fprintf(w, "| %s |", label(row))
		for _, i := range columns {
			fmt.Fprintf(w, " %s |", t.cells[row][t.machines[i]])
		}
		fmt.Fprintln(w)
	}
}
