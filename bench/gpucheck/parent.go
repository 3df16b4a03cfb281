package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"
)

// parent runs the sections in child processes.
func parent(ctx context.Context, s settings, chosen []section, out io.Writer) int {
	ctx, cancel := context.WithTimeoutCause(ctx, s.time, fmt.Errorf("the time for everything, %s, has passed", s.time))
	defer cancel()

	// The name is for people.
	host, _ := os.Hostname()
	screen := newScreen(out)
	defer screen.close()
	rep := &report{Command: os.Args, Built: built(), Machine: host, Begun: time.Now().UTC(), Seconds: map[string]float64{}, out: screen, path: s.json, width: width(out), small: s.small}
	rep.head()

	missing := runSections(ctx, s, chosen, rep)
	for _, r := range bars(rep.Rows, s.small) {
		rep.add(r)
	}
	rep.Whole = true
	if err := rep.write(); err != nil {
		fmt.Fprintln(screen, err)
	}
	if missing != "" {
		fmt.Fprintf(screen, "\ngpucheck: no GPU can be used here, so nothing was verified: %s\n", missing)
		return exitNoGPU
	}
	return rep.end()
}

// runSections runs the chosen sections, each with its share of the time that is left: what earlier
// ones leave goes to the later ones. The libraries always come first, for they say whether there is
// a GPU; missing says what there is not.
func runSections(ctx context.Context, s settings, chosen []section, rep *report) (missing string) {
	if !chosenHas(chosen, "libraries") {
		chosen = append([]section{sections[0]}, chosen...)
	}
	end, _ := ctx.Deadline()
	for i, sec := range chosen {
		switch {
		case sec.gpu && missing != "":
			rep.add(row{Section: sec.name, Name: sec.about, Status: skip, Detail: "no GPU can be used"})
			continue
		case ctx.Err() != nil:
			rep.add(row{Section: sec.name, Name: sec.about, Status: skip, Detail: context.Cause(ctx).Error()})
			continue
		}
		var rest time.Duration
		for _, later := range chosen[i:] {
			rest += later.share
		}
		limit := time.Duration(float64(time.Until(end)) * float64(sec.share) / float64(rest))
		begun := time.Now()
		runSection(ctx, s, sec, limit, rep)
		rep.Seconds[sec.name] = time.Since(begun).Seconds()
		if sec.name == "libraries" {
			missing = noGPU(rep.Rows)
		}
		if err := rep.write(); err != nil {
			rep.add(row{Section: "report", Name: "write " + s.json, Status: fail, Detail: err.Error()})
			rep.path = ""
		}
	}
	return missing
}

// end prints the summary and once more what is not well, and returns the exit code.
func (rep *report) end() int {
	fmt.Fprintf(rep.out, "\n%s, in %s\n", rep.summary(), time.Since(rep.Begun).Round(time.Second))
	for _, r := range rep.Rows {
		if r.Status == fail || r.Status == miss {
			rep.print(r)
		}
	}
	if rep.count(fail)+rep.count(miss) > 0 {
		return exitBad
	}
	return 0
}

// chosenHas says whether a section is among the chosen ones.
func chosenHas(chosen []section, name string) bool {
	for _, sec := range chosen {
		if sec.name == name {
			return true
		}
	}
	return false
}

// noGPU says what is missing for a GPU, by the rows of the first section; "" for nothing.
func noGPU(rows []row) string {
	for _, r := range rows {
		if r.Name == deviceRow {
			if r.Status == ok {
				return ""
			}
			return r.Detail
		}
	}
	return "the section libraries did not end"
}

// built names the commit that this program was built from, if it is known.
func built() string {
	b, isThere := debug.ReadBuildInfo()
	if !isThere {
		return ""
	}
	text := b.GoVersion
	for _, s := range b.Settings {
		switch {
		case s.Key == "vcs.revision":
			text += ", commit " + s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			text += " and changes"
		}
	}
	return text
}
