package tune

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/show"
	"github.com/paragon-train/paragon/tune/study"
)

// maxFront is how many trials of a Pareto front are printed.
const maxFront = 20

// printFront says which trials are on the Pareto front, and their commands if s is not nil.
func printFront(out io.Writer, s *study.Study, r *tune.Result) {
	front := r.Front()
	if len(front) == 0 {
		fmt.Fprintln(out, "\nno trial has a result")
		return
	}
	fmt.Fprintf(out, "\nPareto front, by %s first:\n", r.Metric)
	for _, t := range front[:min(len(front), maxFront)] {
		fmt.Fprintf(out, "  %s:", t.Name())
		for i, x := range r.Values(t) {
			fmt.Fprintf(out, " %s %.6g", r.Objectives()[i].Metric, x)
		}
		if s != nil {
			fmt.Fprintf(out, "\n    %s", commandText(s, t))
		}
		fmt.Fprintln(out)
	}
	if n := len(front); n > maxFront {
		fmt.Fprintf(out, "  ... and %d more\n", n-maxFront)
	}
}

// printBest says which trial was the best, and its command. s is nil for the study of a program,
// whose trials are no commands.
func printBest(out io.Writer, s *study.Study, r *tune.Result, written []string) {
	best := r.BestTrial()
	switch {
	case len(r.Objectives()) > 1:
		printFront(out, s, r)
	case best.Number < 0:
		fmt.Fprintln(out, "\nno trial has a result")
	default:
		fmt.Fprintf(out, "\nbest: %s with %s %.6g\n", best.Name(), r.Metric, r.Value(r.BestTrial()))
		for name, value := range best.Params.All() {
			fmt.Fprintf(out, "  %s: %v\n", name, value)
		}
		if s != nil {
			fmt.Fprintf(out, "command: %s\n", commandText(s, best))
		}
	}
	if r.Halted != "" {
		fmt.Fprintf(out, "ended by: %s\n", r.Halted)
	}
	if r.Missed != "" {
		fmt.Fprintf(out, "%s\nto go on: launch tune --resume, with a later deadline\n", r.Missed)
	}
	fmt.Fprintf(out, "decisions: %s\n", r.DecisionHash())
	if len(written) > 0 {
		fmt.Fprintf(out, "results: %s\n", strings.Join(written, " "))
	}
}

// printFailed says where the output of failed trials is, and how to try them again.
func printFailed(out io.Writer, r *tune.Result, dir, word string) {
	failed := 0
	for _, t := range r.Trials() {
		if t.State == tune.Failed {
			failed++
		}
	}
	if failed > 0 {
		fmt.Fprintf(out, "%s failed; see %s\nto try again: launch tune --resume --failed restart %s\n", plural.Of(failed, "trial"), filepath.Join(dir, "trials"), ssh.Quote([]string{word}))
	}
}

// resumeWord is what to hand to --resume: the file, or the folder if a flag chose another.
func resumeWord(file string, s *study.Study) string {
	// The file alone is enough where it says the folder itself.
	if again, err := study.Load(file); err == nil && again.Config.Dir == s.Config.Dir {
		return file
	}
	return s.Config.Dir
}

// writeResults writes tables and pictures of a search into its folder, and says which.
func writeResults(dir string, r *tune.Result) (written []string, err error) {
	v := r.View()
	var errs []error

	// One that cannot be written does not keep the others from it.
	for _, w := range []struct {
		name  string
		write func(path string) error
	}{
		{"trials.csv", func(path string) error {
			f, err := os.Create(path)
			if err != nil {
				return err
			}
			return errors.Join(show.TrialsCSV(f, v), f.Close())
		}},
		{"curves.png", func(path string) error { return show.Curves(path, v) }},
		{"report.html", func(path string) error { return show.HTML(path, r.Name, v) }},
	} {
		path := filepath.Join(dir, w.name)
		if err := w.write(path); err != nil {
			errs = append(errs, err)
			continue
		}
		written = append(written, path)
	}
	return written, errors.Join(errs...)
}
